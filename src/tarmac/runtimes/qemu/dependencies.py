"""Protocols that the driver depends on, each as small as possible. The agent provides the implementations."""

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
    """The taps of machines, which connect them to their networks."""

    async def attach(self, sandbox_id: str, pod: PodIdentity) -> Sequence[AttachedInterface]:
        """Create the taps once the rules for the pod are in force. Raises NotConnected, OSError."""
        ...

    async def open(self, sandbox_id: str, position: int, *, further: bool = False) -> io.FileIO:
        """Open one tap, counted from 0; with `further`, one more queue of a tap that is open.

        Raises OSError: ENODEV if it is gone, EBUSY while another process has it, or if it has no further queue.
        """
        ...

    async def detach(self, sandbox_id: str) -> None:
        """Remove the taps; succeeds if they are already gone."""
        ...

    async def traffic(self) -> Mapping[str, tuple[int, int]]:
        """Return the bytes received and sent, by sandbox."""
        ...


@dataclass(frozen=True, slots=True)
class CgroupUsage:
    """Usage of a cgroup: core-seconds since it was created, and bytes of memory."""

    cpu: float = 0.0
    working_set: int = 0
    rss: int = 0


class MachineCgroups(Protocol):
    """The cgroups of pods."""

    def entrances(self, path: str) -> Sequence[Path]:
        """Return the files that move a process into the group when its id is written to them."""
        ...

    def oom_kills(self, path: str) -> int:
        """Return the number of processes of the group that the OOM killer has killed."""
        ...

    def usage(self, path: str) -> CgroupUsage:
        """Return the usage of the group; zero when it is gone."""
        ...


@dataclass(frozen=True, slots=True)
class BootFiles:
    """A kernel shipped beside an image."""

    kernel: Path
    initrd: Path | None = None
    command_line: str = ""


class MachineImages(Images, Protocol):
    """The machine images of this node: `Images`, and how they boot."""

    def learn(self, annotation: str) -> None:
        """Remember the image definitions in a pod's annotation. Raises RuntimeRefused if it cannot be parsed."""
        ...

    def boot_files(self, image_id: str) -> BootFiles | None:
        """Return the kernel of a present image; None when the image boots from its disk."""
        ...

    def starts_by_uefi(self, image_id: str) -> bool:
        """Tell if the image needs UEFI firmware."""
        ...

    def accepts_cloud_init(self, image_id: str) -> bool:
        """Tell if the image reads a cloud-init seed."""
        ...
