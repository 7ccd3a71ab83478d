"""What the driver needs of others, each as little as will do. Whoever puts a node together fills them in."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.runtimes.interface.images import Images
from tarmac.runtimes.interface.sandboxes import PodIdentity


class Taps(Protocol):
    """A machine's ends of its networks."""

    async def attach(self, sandbox_id: str, pod: PodIdentity) -> Sequence[AttachedInterface]:
        """Make them once the rules about the pod are in force. Raises NotConnected, OSError."""
        ...

    async def open(self, sandbox_id: str, position: int) -> io.FileIO:
        """One of them, counted from 0. Raises OSError: ENODEV where there is none, EBUSY while somebody has it."""
        ...

    async def detach(self, sandbox_id: str) -> None:
        """Take them away; those that are gone succeed."""
        ...

    async def traffic(self) -> Mapping[str, tuple[int, int]]:
        """Bytes that each sandbox received and sent."""
        ...


@dataclass(frozen=True, slots=True)
class GroupUsage:
    """What a cgroup uses: core-seconds since it was made, and bytes."""

    cpu: float = 0.0
    working_set: int = 0
    rss: int = 0


class Groups(Protocol):
    """The cgroups of pods."""

    def entrances(self, path: str) -> Sequence[Path]:
        """The files that move a process into a group when its id is written to them."""
        ...

    def oom_kills(self, path: str) -> int:
        """How many of its processes the kernel has killed for want of memory."""
        ...

    def usage(self, path: str) -> GroupUsage:
        """What it uses; nothing when it is gone."""
        ...


@dataclass(frozen=True, slots=True)
class BootFiles:
    """A kernel that lies beside an image."""

    kernel: Path
    initrd: Path | None = None
    command_line: str = ""


class MachineImages(Images, Protocol):
    """The images of machines on this node, as `Images`; and how they boot."""

    def learn(self, annotation: str) -> None:
        """What names of images mean, as a pod says it. Raises RuntimeRefused when that cannot be read."""
        ...

    def boot_files(self, image_id: str) -> BootFiles | None:
        """The kernel of an image that is here; None when it boots from its disk."""
        ...

    def starts_by_uefi(self, image_id: str) -> bool:
        """Whether it needs UEFI firmware."""
        ...

    def accepts_cloud_init(self, image_id: str) -> bool:
        """Whether it reads a seed."""
        ...
