"""QEMU's arguments for a machine: a pure function, so that tests can check every argument.

Every device has a fixed address on the bus, independent of the machine's other devices: a guest that names interfaces
or disks by address finds them again after a disk was added. One slot has eight functions, so that 24 disks and eight
interfaces fit: the bus has 32 slots.
"""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from tarmac.runtimes.qemu.machine import (
    Accelerator,
    DirectKernel,
    DiskImage,
    MachineDescription,
    TapInterface,
    UefiFirmware,
)

PROGRAM = "qemu-system-x86_64"

# Slots of the bus. 0 is the host bridge, 1 the display, 31 the board's own devices.
_HOT_PLUG, _PANIC, _BALLOON, _RANDOM, _INTERFACES, _DISKS, _SEED = 0x2, 0x3, 0x4, 0x5, 0x6, 0x8, 0xC
_FUNCTIONS = 8
_HOT_PLUG_PORTS = 4
_MAX_CPUS = 16  # maximum that a machine can grow to without a restart
_FIRMWARE, _VARIABLES = "firmware", "variables"  # of UEFI
_UEFI_SETS = (100, 101)  # beyond the numbers of disks

_BOARD = "q35,vmport=off,hpet=off,sata=off,usb=off,smm=off"
_SANDBOX = ("-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny")
_FIRST_BOOT_INDEX = 1  # -kernel takes 0
_ACCELERATORS = {"kvm": ("kvm", "host"), "tcg": ("tcg,thread=multi,tb-size=64", "max")}

_encode = msgspec.json.Encoder().encode


def command_line(machine: MachineDescription, accelerator: Accelerator) -> list[str]:
    """Return the arguments, the program's name first. Sockets and the serial log are in the process's own /run."""
    return [PROGRAM, *_board(machine, accelerator), *_consoles(), *_standard_devices(), *_own_devices(machine)]


def trial_command(accelerator: Accelerator, kernel: str, initrd: str, append: str) -> list[str]:
    """Return the arguments of a machine with a kernel only, which writes to standard output and takes no input."""
    accelerated, model = _ACCELERATORS[accelerator]
    bare = ["-nodefaults", "-no-user-config", "-M", _BOARD, "-accel", accelerated, "-cpu", model, "-m", "128"]
    consoles = ["-display", "none", "-chardev", "stdio,id=serial0,signal=off", "-serial", "chardev:serial0"]
    started = ["-kernel", kernel, *(["-initrd", initrd] if initrd else []), "-append", append]
    return [PROGRAM, *bare, *_SANDBOX, *consoles, "-no-reboot", *started]


def _board(machine: MachineDescription, accelerator: Accelerator) -> Iterator[str]:
    accelerated, model = _ACCELERATORS[accelerator]
    count = machine.processors
    yield from ("-name", f"guest={_escaped(machine.name)},debug-threads=on", "-uuid", machine.uuid)
    yield from ("-nodefaults", "-no-user-config")
    yield from _SANDBOX
    yield from ("-M", _BOARD + (f",pflash0={_FIRMWARE},pflash1={_VARIABLES}" if machine.uefi else ""))
    yield from ("-accel", accelerated, "-cpu", model, "-m", str(machine.memory_mib))
    yield from ("-smp", f"{count},maxcpus={max(count, min(4 * count, _MAX_CPUS))}")
    # The process stays after a shutdown or panic of the guest, so that the agent can query the reason.
    yield from ("-action", "reboot=reset,shutdown=pause,panic=pause", "-rtc", "base=utc")


def _consoles() -> Iterator[str]:
    yield from ("-display", "none", "-vga", "std", "-vnc", "unix:/run/vnc.sock,share=force-shared")
    # Keyboard input comes through a pipe; the guest's output goes only to the log. A socket could serve both, but when
    # its client does not read at once, QEMU blocks the guest and logs the same byte again at each retry.
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


def _own_devices(machine: MachineDescription) -> Iterator[str]:
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
    """A disk by its descriptor. The format is explicit, never probed: a guest controls the bytes that a probe reads.

    Blocks that the guest discards, or overwrites with zeros, are returned to the host.
    """
    yield from _file(disk.descriptor, index, f"disk{index}", read_only=disk.read_only, sparse=not disk.read_only)
    # When the host's disk is full, the machine is paused until there is room; all other errors go to the guest.
    serial = _escaped(disk.serial)
    yield from ("-device", f"virtio-blk-pci,drive=disk{index},serial={serial},werror=enospc,{place}")


def _interface(interface: TapInterface, index: int) -> Iterator[str]:
    vhost = f"vhost=on,{_descriptors('vhostfd', interface.vhosts)}" if interface.vhosts else "vhost=off"
    yield from ("-netdev", f"tap,id=net{index},{_descriptors('fd', interface.queues)},{vhost}")
    count = len(interface.queues)
    # An interrupt for each direction of a queue, one for the configuration, one for the control queue.
    queues = f"mq=on,vectors={2 * count + 2}," if count > 1 else ""
    # No ROM: no guest boots from the network, and QEMU has one file less to read.
    place = _place(_INTERFACES, index)
    yield from ("-device", f"virtio-net-pci,netdev=net{index},mac={interface.mac},{queues}romfile=,{place}")


def _descriptors(name: str, numbers: tuple[int, ...]) -> str:
    return f"{name}={numbers[0]}" if len(numbers) == 1 else f"{name}s={':'.join(map(str, numbers))}"


def _uefi(firmware: UefiFirmware) -> Iterator[str]:
    code, variables = _UEFI_SETS
    yield from _file(firmware.code, code, _FIRMWARE, read_only=True)
    yield from _file(firmware.variables, variables, _VARIABLES, read_only=False)


def _file(descriptor: int, number: int, name: str, *, read_only: bool, sparse: bool = False) -> Iterator[str]:
    """A raw file by its descriptor, for devices to refer to; with `sparse`, discarded and zero blocks become holes."""
    # A discard passes through both block nodes, and each of them ignores it by default.
    unmapped = {"discard": "unmap"} if sparse else {}
    file = {"driver": "file", "filename": f"/dev/fdset/{number}", "locking": "off", "read-only": read_only, **unmapped}
    zeros = {**unmapped, "detect-zeroes": "unmap"} if sparse else {}
    node = {"driver": "raw", "node-name": name, "read-only": read_only, **zeros, "file": file}
    yield from ("-add-fd", f"fd={descriptor},set={number}", "-blockdev", _encode(node).decode())


def _kernel(kernel: DirectKernel) -> Iterator[str]:
    yield from ("-kernel", f"/proc/self/fd/{kernel.kernel}")
    if kernel.initrd is not None:
        yield from ("-initrd", f"/proc/self/fd/{kernel.initrd}")
    if kernel.command_line:
        yield from ("-append", kernel.command_line)


def _place(slot: int, index: int = 0) -> str:
    """Return the address of the index-th device of a group that begins at a slot; shared slots are multifunction."""
    slots, function = divmod(index, _FUNCTIONS)
    shared = ",multifunction=on" if slot in (_HOT_PLUG, _INTERFACES, _DISKS) else ""
    return f"bus=pcie.0,addr={slot + slots:#x}.{function:#x}{shared}"


def _escaped(value: str) -> str:
    """Escape a value inside an option list, in which a comma separates."""
    return value.replace(",", ",,")
