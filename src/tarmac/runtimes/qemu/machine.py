"""A machine as data: every input of QEMU's command line.

Files are descriptors that the process inherits. So the command line contains no path of the host, and the process
needs no permission to open anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Accelerator = Literal["kvm", "tcg"]
"""KVM, or TCG: QEMU's translation of every instruction."""


@dataclass(frozen=True, slots=True)
class DiskImage:
    """A raw disk. The guest identifies it by its serial number."""

    serial: str
    descriptor: int
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class TapInterface:
    """A network interface backed by a tap, with a descriptor for each of its queues.

    With `vhosts`, also descriptors and one for each queue, the kernel forwards its frames.
    """

    mac: str
    queues: tuple[int, ...]
    vhosts: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DirectKernel:
    """A kernel that QEMU loads directly, without firmware."""

    kernel: int
    initrd: int | None = None
    command_line: str = ""


@dataclass(frozen=True, slots=True)
class UefiFirmware:
    """Read-only firmware, and this machine's writable copy of its variables."""

    code: int
    variables: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineDescription:
    """One machine. `disks` are in the order of the attachments, the boot disk first; cloud-init reads `seed`."""

    name: str
    uuid: str
    memory_mib: int
    processors: int
    disks: tuple[DiskImage, ...]
    seed: DiskImage | None = None
    interfaces: tuple[TapInterface, ...] = ()
    kernel: DirectKernel | None = None
    uefi: UefiFirmware | None = None
