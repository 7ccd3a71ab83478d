"""The same machine by hand: QEMU with the agent's arguments, without Tarmac around it.

Disks, seed and tap are alike; the tap is in a network namespace, from which the guest's port is polled until it
responds. Preparations are not measured: the clock runs from the start of the process.
"""

from __future__ import annotations

import os
import socket
import subprocess
import uuid
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter, sleep

import msgspec

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.linux import taps
from tarmac.runtimes.parts import MachineParts
from tarmac.runtimes.qemu.commandline import command_line
from tarmac.runtimes.qemu.iso import IsoFile, iso_image
from tarmac.runtimes.qemu.machine import Accelerator, DirectKernel, DiskImage, MachineDescription, TapInterface
from tarmac.runtimes.qemu.seed.documents import MAX_BYTES, Seed, documents
from tarmac.runtimes.qemu.seed.network import GuestNetwork
from tarmac.runtimes.qemu.seed.vendor import GuestDisk
from tarmac.volumes.linux.diskimages import copy_disk
from tests.datapath.lab import Lab

MEMORY_MIB = 256
_MAC, _ROUTER, _ADDRESS, _SSH = "02:dd:50:62:0e:9a", "10.0.2.2", "10.0.2.15", 22
_BOOT_BYTES = 1 << 30
_ASK_SECONDS, _PATIENCE = 0.05, 300.0


@dataclass(frozen=True)
class Started:
    """A machine with a responding port."""

    seconds: float
    pid: int


@contextmanager
def by_hand(parts: MachineParts, accelerator: Accelerator, folder: Path, *, screen: bool = True) -> Generator[Started]:
    """Start one machine, wait for its ssh, and end it afterwards. Without a screen it has no VNC."""
    with ExitStack() as stack:
        lab = Lab()
        stack.callback(lab.close)
        network = lab.namespace("guest")
        command, files = _prepared(parts, accelerator, folder, lab, network, stack)
        if not screen:
            place = command.index("-vnc")
            del command[place : place + 2]
        began = perf_counter()
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, pass_fds=files)
        stack.callback(process.wait)
        stack.callback(process.kill)
        while not lab.inside(network, _answers):
            assert process.poll() is None, "QEMU has ended"
            assert perf_counter() - began < _PATIENCE, "ssh does not respond"
            sleep(_ASK_SECONDS)
        yield Started(perf_counter() - began, process.pid)


def _prepared(
    parts: MachineParts, accelerator: Accelerator, folder: Path, lab: Lab, network: Path, stack: ExitStack
) -> tuple[list[str], list[int]]:
    """Return the command, and the files that it inherits."""
    boot, seed = folder / "boot.img", folder / "seed.iso"
    with boot.open("wb") as file:
        file.truncate(_BOOT_BYTES)
    copy_disk(str(parts.images / "tiny.raw"), str(boot))
    seed.write_bytes(_seed())
    tap = lab.inside(network, lambda: taps.open_tap("guest"))
    stack.enter_context(tap)
    for command in ("ip link set guest up", f"ip address add {_ROUTER}/24 dev guest"):
        lab.command(network, command)
    files = [_opened(each, stack) for each in (boot, seed, parts.kernel, parts.initrd)]
    line = msgspec.json.decode((parts.images / "tiny.json").read_bytes())["boot"]["commandLine"]
    machine = MachineDescription(
        name="by-hand",
        uuid=str(uuid.uuid4()),
        memory_mib=MEMORY_MIB,
        processors=1,
        disks=(DiskImage("boot", files[0]),),
        seed=DiskImage("cidata", files[1], read_only=True),
        interfaces=(TapInterface(_MAC, (tap.fileno(),)),),
        kernel=DirectKernel(files[2], files[3], line),
    )
    sockets = lab.folder / "run"
    sockets.mkdir()
    os.mkfifo(sockets / "serial.in")
    (sockets / "serial.out").symlink_to("/dev/null")
    words = [each.replace("/run/", f"{sockets}/") for each in command_line(machine, accelerator)]
    return words, [*files, tap.fileno()]


def _seed() -> bytes:
    interface = AttachedInterface(
        "eth0", "default/net", mac=_MAC, addresses=[f"{_ADDRESS}/24"], gateways=[_ROUTER], routes=["0.0.0.0/0"]
    )
    seed = Seed(
        instance_id=str(uuid.uuid4()),
        name="by-hand",
        interfaces=[interface],
        guest_network=GuestNetwork("fe80::2", (), ()),
        disks=[GuestDisk("boot", "boot")],
    )
    return iso_image("cidata", {name: IsoFile(text) for name, text in documents(seed).items()}, MAX_BYTES)


def _opened(path: Path, stack: ExitStack) -> int:
    descriptor = os.open(path, os.O_RDWR if path.name == "boot.img" else os.O_RDONLY)
    stack.callback(os.close, descriptor)
    return descriptor


def _answers() -> bool:
    try:
        with socket.create_connection((_ADDRESS, _SSH), timeout=1) as made:
            return made.recv(4) == b"SSH-"
    except OSError:
        return False
