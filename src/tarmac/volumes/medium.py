"""What volumes are made of, as the driver needs it: memory, disks and binds.

The calls block and are made in threads. All are safe to repeat. Linux' own is `tarmac.volumes.linux`; the fake one has
folders for everything.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol


class MediumFault(Exception):
    """A filesystem or device does not do what it should. The message tells an operator what and why."""


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk of this node. `device`: the block device it is, when it is no image file.

    A disk with a filesystem of its own always has ext4. One that is handed out as a device (`block`) has one only when
    it is made with a `filesystem`, which is then labelled.
    """

    name: str
    size: int
    block: bool = False
    device: str = ""
    filesystem: str = ""
    label: str = ""


class Medium(Protocol):
    """Raises OSError and MediumFault."""

    def prepare(self) -> None:
        """Make the root folder, shared with the namespaces of containers."""
        ...

    def memory(self, path: str, size: int | None) -> None:
        """A filesystem in memory, never swapped out where the kernel can help it."""
        ...

    def has_disk(self, disk: Disk) -> bool:
        """Whether the disk is complete."""
        ...

    def make_disk(self, disk: Disk, files: str | None, image: str | None = None) -> None:
        """Make a disk that is not there. It is there whole or not at all.

        It has a copy of the files of a folder, or begins with the bytes of a raw image.
        """
        ...

    def mount_disk(self, disk: Disk, path: str, *, read_only: bool) -> bool:
        """Mount it; whether it is as large as it shall be. It may have to wait until nobody uses it."""
        ...

    def attach_disk(self, disk: Disk) -> str:
        """The block device that it is, as large as it shall be."""
        ...

    def disk_file(self, disk: Disk) -> tuple[str, bool]:
        """The file or device that it is, for whoever opens it as it is; whether it is as large as it shall be."""
        ...

    def disk_in_use(self, name: str) -> bool:
        """Whether a disk is mounted or attached, or a pod has a link to its file."""
        ...

    def remove_disk(self, name: str) -> None:
        """Remove a disk that is not in use; nothing when it is not there."""
        ...

    def detach_unused(self, linked: Collection[str]) -> None:
        """Let go of block devices that none of these links names."""
        ...

    def bind(self, source: int, target: str, *, read_only: bool = False) -> None:
        """Show what a descriptor holds at a path too."""
        ...

    def is_mounted(self, path: str) -> bool:
        """Whether a volume has been put at a path."""
        ...

    def mounted_pods(self) -> set[str]:
        """The uids of pods that have mounts."""
        ...

    def release(self, path: str, *, lazy: bool = False) -> Sequence[str]:
        """Unmount everything at and below a path; what is busy. Lazily, nothing is."""
        ...

    def close(self) -> None:
        """Undo `prepare`."""
        ...
