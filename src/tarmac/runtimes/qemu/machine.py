"""A machine as data: everything that QEMU's command line says.

Files are given by descriptors that the process inherits. So nothing on the command line names a path of the host, and
the process needs no right to open anything.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Accelerator = Literal["kvm", "tcg"]
"""The processor's own support for machines, or QEMU's translation of every instruction."""


@dataclass(frozen=True, slots=True)
class DiskImage:
    """A raw disk. The guest finds it by its serial."""

    serial: str
    descriptor: int
    read_only: bool = False


@dataclass(frozen=True, slots=True)
class TapInterface:
    """A network interface whose other end is a tap."""

    mac: str
    descriptor: int


@dataclass(frozen=True, slots=True)
class DirectKernel:
    """A kernel that QEMU loads itself."""

    kernel: int
    initrd: int | None = None
    command_line: str = ""


@dataclass(frozen=True, slots=True)
class UefiFirmware:
    """Firmware that is read only, and a copy of its variables that belongs to the machine."""

    code: int
    variables: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """One machine. `disks` are in the order of the attachments, the boot disk first; cloud-init reads the `seed`."""

    name: str
    uuid: str
    memory_mib: int
    processors: int
    disks: tuple[DiskImage, ...]
    seed: DiskImage | None = None
    interfaces: tuple[TapInterface, ...] = ()
    kernel: DirectKernel | None = None
    uefi: UefiFirmware | None = None
