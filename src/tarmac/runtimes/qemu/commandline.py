"""QEMU's arguments for a machine: a pure function, so that tests can read every word of them.

Every device has a place of its own on the bus, whatever else the machine has: a guest that names interfaces or disks by
their place finds them again after another disk was added. One slot has eight functions, which is what 24 disks and
eight interfaces need: the bus has 32 slots.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tarmac.runtimes.qemu.machine import Accelerator, DirectKernel, DiskImage, Machine, TapInterface, UefiFirmware

PROGRAM = "qemu-system-x86_64"

# Slots of the bus. 0 is the bridge to the host, 1 the display, 31 what the board brings.
_HOT_PLUG, _PANIC, _BALLOON, _RANDOM, _INTERFACES, _DISKS, _SEED = 0x2, 0x3, 0x4, 0x5, 0x6, 0x8, 0xC
_FUNCTIONS = 8
_HOT_PLUG_PORTS = 4
_MOST_PROCESSORS = 16  # that a machine can grow to without a restart
_FIRMWARE, _VARIABLES = "firmware", "variables"  # of UEFI
_UEFI_SETS = (100, 101)  # beyond the numbers of disks

_BOARD = "q35,vmport=off,hpet=off,sata=off,usb=off,smm=off"
_SANDBOX = ("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
_FIRST_BOOT_INDEX = 1  # -kernel takes 0
_ACCELERATORS = {"kvm": ("kvm", "host"), "tcg": ("tcg,thread=multi,tb-size=64", "max")}

_encode = msgspec.json.Encoder().encode


def command_line(machine: Machine, accelerator: Accelerator) -> list[str]:
    """The arguments, the program's name first. Sockets and the serial log are in the process's own /run."""
    return [PROGRAM, *_board(machine, accelerator), *_consoles(), *_standard_devices(), *_own_devices(machine)]


def trial_command(accelerator: Accelerator, kernel: str, initrd: str, append: str) -> list[str]:
    """A machine without anything but a kernel, which writes to the standard output and takes no input."""
    accelerated, model = _ACCELERATORS[accelerator]
    bare = ["-nodefaults", "-no-user-config", "-M", _BOARD, "-accel", accelerated, "-cpu", model, "-m", "128"]
    consoles = ["-display", "none", "-chardev", "stdio,id=serial0,signal=off", "-serial", "chardev:serial0"]
    started = ["-kernel", kernel, *(["-initrd", initrd] if initrd else []), "-append", append]
    return [PROGRAM, *bare, *_SANDBOX, *consoles, "-no-reboot", *started]


def _board(machine: Machine, accelerator: Accelerator) -> Iterator[str]:
    accelerated, model = _ACCELERATORS[accelerator]
    count = machine.processors
    yield from ("-name", f"guest={_escaped(machine.name)},debug-threads=on", "-uuid", machine.uuid)
    yield from ("-nodefaults", "-no-user-config")
    yield from _SANDBOX
    yield from ("-M", _BOARD + (f",pflash0={_FIRMWARE},pflash1={_VARIABLES}" if machine.uefi else ""))
    yield from ("-accel", accelerated, "-cpu", model, "-m", str(machine.memory_mib))
    yield from ("-smp", f"{count},maxcpus={max(count, min(4 * count, _MOST_PROCESSORS))}")
    # The process stays when the guest is off or has panicked, so that somebody can ask it which it was.
    yield from ("-action", "reboot=reset,shutdown=pause,panic=pause", "-rtc", "base=utc")


def _consoles() -> Iterator[str]:
    yield from ("-display", "none", "-vga", "std", "-vnc", "unix:/run/vnc.sock,share=force-shared")
    # Keys come in by one pipe, and what the guest writes goes nowhere but to the log. A socket would do for both, but
    # QEMU logs a byte again each time that whoever is connected does not take it at once, and the guest waits.
    yield from ("-chardev", "pipe,id=serial0,path=/run/serial,logfile=/run/serial.raw,logappend=on")
    yield from ("-serial", "chardev:serial0")
    yield from ("-chardev", "socket,id=qmp0,path=/run/qmp.sock,server=on,wait=off")
    yield from ("-mon", "chardev=qmp0,mode=control")


def _standard_devices() -> Iterator[str]:
    for index in range(_HOT_PLUG_PORTS):
        yield from ("-device", f"pcie-root-port,id=hot{index},chassis={index + 1},{_place(_HOT_PLUG, index)}")
    yield from ("-device", f"pvpanic-pci,{_place(_PANIC)}")
    yield from ("-device", f"virtio-balloon-pci,free-page-reporting=on,{_place(_BALLOON)}")
    yield from ("-object", "rng-random,id=rng0,filename=/dev/urandom")
    yield from ("-device", f"virtio-rng-pci,rng=rng0,{_place(_RANDOM)}")


def _own_devices(machine: Machine) -> Iterator[str]:
    for index, disk in enumerate(machine.disks):
        booted = f",bootindex={_FIRST_BOOT_INDEX}" if index == 0 else ""
        yield from _disk(disk, index, _place(_DISKS, index) + booted)
    if machine.seed is not None:
        yield from _disk(machine.seed, len(machine.disks), _place(_SEED))
    for index, interface in enumerate(machine.interfaces):
        yield from _interface(interface, index)
    if machine.uefi is not None:
        yield from _uefi(machine.uefi)
    if machine.kernel is not None:
        yield from _kernel(machine.kernel)


def _disk(disk: DiskImage, index: int, place: str) -> Iterator[str]:
    """A disk by its descriptor. The format is said, never guessed: a guest writes what a guess would go by."""
    yield from _file(disk.descriptor, index, f"disk{index}", read_only=disk.read_only)
    # On a host disk that is full the machine waits until there is room; the guest hears of all other errors.
    serial = _escaped(disk.serial)
    yield from ("-device", f"virtio-blk-pci,drive=disk{index},serial={serial},werror=enospc,{place}")


def _interface(interface: TapInterface, index: int) -> Iterator[str]:
    yield from ("-netdev", f"tap,id=net{index},fd={interface.descriptor},vhost=off")
    # No ROM: nothing boots from the network, and there is one file less to read.
    place = _place(_INTERFACES, index)
    yield from ("-device", f"virtio-net-pci,netdev=net{index},mac={interface.mac},romfile=,{place}")


def _uefi(firmware: UefiFirmware) -> Iterator[str]:
    code, variables = _UEFI_SETS
    yield from _file(firmware.code, code, _FIRMWARE, read_only=True)
    yield from _file(firmware.variables, variables, _VARIABLES, read_only=False)


def _file(descriptor: int, number: int, name: str, *, read_only: bool) -> Iterator[str]:
    """A raw file by its descriptor, for devices to name."""
    file = {"driver": "file", "filename": f"/dev/fdset/{number}", "locking": "off", "read-only": read_only}
    node = {"driver": "raw", "node-name": name, "read-only": read_only, "file": file}
    yield from ("-add-fd", f"fd={descriptor},set={number}", "-blockdev", _encode(node).decode())


def _kernel(kernel: DirectKernel) -> Iterator[str]:
    yield from ("-kernel", f"/proc/self/fd/{kernel.kernel}")
    if kernel.initrd is not None:
        yield from ("-initrd", f"/proc/self/fd/{kernel.initrd}")
    if kernel.command_line:
        yield from ("-append", kernel.command_line)


def _place(slot: int, index: int = 0) -> str:
    """The place of the index-th device of those that begin at a slot; slots that may be shared say so."""
    slots, function = divmod(index, _FUNCTIONS)
    shared = ",multifunction=on" if slot in (_HOT_PLUG, _INTERFACES, _DISKS) else ""
    return f"bus=pcie.0,addr={slot + slots:#x}.{function:#x}{shared}"


def _escaped(value: str) -> str:
    """A value among options, which a comma would end."""
    return value.replace(",", ",,")
