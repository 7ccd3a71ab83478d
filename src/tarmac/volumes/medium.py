"""The storage primitives that the driver needs: memory, disks and binds.

The calls block and are made in threads. All are idempotent. The real one is `tarmac.volumes.linux`; the fake one uses
folders for everything.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Protocol


class MediumFault(Exception):
    """A filesystem or device fails. The message is for the operator."""


@dataclass(frozen=True, slots=True)
class StoredDisk:
    """A disk of this node. `device` is its block device, if it is no image file.

    A disk with a filesystem always has ext4. One that is handed out as a device (`block`) has one only if it is made
    with a `filesystem`, which is then labelled.
    """

    name: str
    size: int
    block: bool = False
    device: str = ""
    filesystem: str = ""
    label: str = ""


class Medium(Protocol):
    """Storage primitives. All methods raise OSError and MediumFault."""

    def prepare(self) -> None:
        """Make the root folder, shared with the namespaces of containers."""
        ...

    def memory(self, path: str, size: int | None) -> None:
        """Mount a filesystem in memory, without swap if the kernel supports that."""
        ...

    def has_disk(self, disk: StoredDisk) -> bool:
        """True if the disk is complete."""
        ...

    def make_disk(self, disk: StoredDisk, files: str | None, image: str | None = None) -> None:
        """Make a missing disk, atomically.

        It gets a copy of the files of a folder, or begins with the bytes of a raw image.
        """
        ...

    def mount_disk(self, disk: StoredDisk, path: str, *, read_only: bool) -> bool:
        """Mount it; True if it has its requested size. Growing may have to wait until the disk is unused."""
        ...

    def attach_disk(self, disk: StoredDisk) -> str:
        """Return its block device, grown to the requested size."""
        ...

    def disk_file(self, disk: StoredDisk) -> tuple[str, bool]:
        """Return its file or device, for direct use; True if it has its requested size."""
        ...

    def disk_in_use(self, name: str) -> bool:
        """True if a disk is mounted or attached, or a pod has a link to its file."""
        ...

    def remove_disk(self, name: str) -> None:
        """Remove an unused disk; ignored when it does not exist."""
        ...

    def detach_unused(self, linked: Collection[str]) -> None:
        """Release block devices that none of these links names."""
        ...

    def bind(self, source: int, target: str, *, read_only: bool = False) -> None:
        """Bind a descriptor's file or folder to a path."""
        ...

    def is_mounted(self, path: str) -> bool:
        """True if a volume is mounted at a path."""
        ...

    def mounted_pods(self) -> set[str]:
        """Return the uids of pods that have mounts."""
        ...

    def release(self, path: str, *, lazy: bool = False) -> Sequence[str]:
        """Unmount everything at and below a path; returns the busy ones. Lazily, none is."""
        ...

    def close(self) -> None:
        """Undo `prepare`."""
        ...
