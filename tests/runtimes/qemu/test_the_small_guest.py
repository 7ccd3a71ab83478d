"""The small image, booted by QEMU alone: it reports its start, applies the seed, and powers off on request."""

from __future__ import annotations

import json
import socket
import subprocess
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.runtimes.parts import FIRST_LINE, MachineParts, PartMissing, find_machine_parts
from tarmac.runtimes.qemu.iso import IsoFile, iso_image
from tarmac.runtimes.qemu.seed.documents import Seed, documents
from tarmac.runtimes.qemu.seed.network import GuestNetwork
from tarmac.runtimes.qemu.seed.vendor import GuestDisk
from tarmac.volumes.linux import ext4
from tarmac.volumes.linux.diskimages import copy_disk

pytestmark = [pytest.mark.root, pytest.mark.slow, pytest.mark.timeout(240)]
PATIENCE = 100.0
PROMPT = "root@web-dfw-1:~# "
MIB = 1 << 20
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIGhRkl4CnK2Nhf7rLc9GfnHobqiSETcG me@example"


@pytest.fixture
def parts() -> MachineParts:
    try:
        return find_machine_parts()
    except PartMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")


def seed(mac: str) -> bytes:
    interface = AttachedInterface(
        "eth7",
        "default/net",
        mtu=1400,
        mac=mac,
        addresses=["10.0.2.15/24", "fd00:1::15/64"],
        gateways=["10.0.2.2", "fd00:1::2"],
        routes=["0.0.0.0/0", "::/0", "10.128.0.0/9"],
    )
    told = Seed(
        instance_id="7f0c2c9e-8f3c-4a52-9f0e-3a1f1c6d2b11",
        name="web-dfw-1",
        interfaces=[interface],
        guest_network=GuestNetwork("fe80::2", ("10.0.2.3",), ("default.svc.cluster.local", "cluster.local")),
        disks=[GuestDisk("boot", "boot"), GuestDisk("application-logs", "logs", "/var/log/app")],
        ssh_keys=f"root:{KEY}\nann:{KEY}",
        user_data=b"#!/bin/sh\necho ran > /tmp/user-data\n",
    )
    return iso_image("cidata", {name: IsoFile(text) for name, text in documents(told).items()}, MIB)


def disk(path: Path, serial: str, number: int, *, read_only: bool = False) -> Sequence[str]:
    file = f"file={path},format=raw,if=none,id=d{number}" + (",readonly=on" if read_only else "")
    return ("-drive", file, "-device", f"virtio-blk-pci,drive=d{number},serial={serial}")


@contextmanager
def booted(parts: MachineParts, folder: Path, mac: str) -> Generator[subprocess.Popen[bytes]]:
    described = json.loads((parts.images / "tiny.json").read_text())
    line = described["boot"]["commandLine"]
    command = [
        str(parts.qemu), "-nodefaults", "-M", "q35,sata=off,usb=off", "-accel", "tcg", "-cpu", "max", "-m", "128",
        "-display", "none", "-action", "shutdown=pause", "-device", "pvpanic-pci", "-device", "virtio-rng-pci",
        "-chardev", f"socket,id=s,path={folder}/serial,server=on,wait=off,logfile={folder}/log", "-serial", "chardev:s",
        "-qmp", f"unix:{folder}/qmp,server=on,wait=off",
        *disk(folder / "boot", "boot", 0), *disk(folder / "logs", "logs", 1),
        *disk(folder / "seed", "cidata", 2, read_only=True),
        "-netdev", "user,id=n,restrict=on,hostfwd=tcp:127.0.0.1:0-:22",
        "-device", f"virtio-net-pci,netdev=n,mac={mac},romfile=",
        "-kernel", str(parts.kernel), "-initrd", str(parts.initrd), "-append", line,
    ]  # fmt: skip
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def connected(path: Path) -> socket.socket:
    """Return a connection, once the socket accepts it."""
    deadline = time.monotonic() + PATIENCE
    while True:
        made = socket.socket(socket.AF_UNIX)
        try:
            made.connect(str(path))
        except OSError:
            made.close()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        else:
            made.settimeout(PATIENCE)
            return made


class Console:
    """The shell on the serial port."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self._read = b""

    def until(self, text: str) -> str:
        while text.encode() not in self._read:
            piece = self._connection.recv(4096)
            assert piece, "the machine closed the connection"
            self._read += piece
        before, _, self._read = self._read.partition(text.encode())
        return before.decode(errors="replace")

    def run(self, command: str) -> str:
        """Return the output of a command. A word that its echo does not contain marks the end."""
        self._connection.sendall(f"{command}; echo END''OF\n".encode())
        self.until("OF\r\n")
        said = self.until("ENDOF\r\n").replace("\r", "")
        self.until(PROMPT)  # earlier input would be echoed twice
        return said


def test_the_small_guest_does_what_its_seed_says_and_ends_by_the_power_button(
    parts: MachineParts, tmp_path: Path
) -> None:
    for name, size in (("boot", 256 * MIB), ("logs", 16 * MIB)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    copy_disk(str(parts.images / "tiny.raw"), str(tmp_path / "boot"))
    ext4.make(str(tmp_path / "logs"), "application-logs")
    mac = "02:dd:50:62:0e:9a"
    (tmp_path / "seed").write_bytes(seed(mac))
    folder = Path("/run") / f"tarmac-guest-{tmp_path.parent.name[-8:]}-{tmp_path.name[-4:]}"  # sockets need short paths
    folder.symlink_to(tmp_path)
    try:
        with booted(parts, folder, mac), connected(folder / "serial") as serial, connected(folder / "qmp") as monitor:
            look(Console(serial))
            power_off(monitor)
    finally:
        folder.unlink()
    assert FIRST_LINE in (tmp_path / "log").read_text(errors="replace")
    assert "clean" in subprocess.run(["e2fsck", "-n", tmp_path / "boot"], capture_output=True, text=True).stdout


def look(console: Console) -> None:
    console.until(PROMPT)
    address = console.run("ip addr show eth7")
    assert "mtu 1400" in address
    assert "inet 10.0.2.15/24" in address
    assert "inet6 fd00:1::15/128" in address
    assert "tentative" not in address
    routes = console.run("ip route; ip -6 route")
    assert "default via 10.0.2.2 dev eth7" in routes
    assert "10.128.0.0/9 via 10.0.2.2" in routes
    assert "default via fe80::2 dev eth7" in routes
    assert console.run("cat /etc/resolv.conf").split("\n")[:2] == [
        "nameserver 10.0.2.3",
        "search default.svc.cluster.local cluster.local",
    ]
    assert console.run("readlink /dev/disk/by-id/datumcloud-application-logs").strip() == "../../vdb"
    assert console.run("readlink /dev/disk/by-id/virtio-boot").strip() == "../../vda"
    assert " ext4 rw" in console.run("grep ' /var/log/app ' /proc/mounts")
    assert KEY in console.run("cat /root/.ssh/authorized_keys")
    assert KEY in console.run("cat /home/ann/.ssh/authorized_keys")
    assert console.run("cat /tmp/user-data").strip() == "ran"
    # over the network: the port is open, and it is ssh
    assert "SSH-2.0-dropbear" in console.run("nc -w 3 10.0.2.15 22 </dev/null | head -n 1")


def power_off(monitor: socket.socket) -> None:
    lines = monitor.makefile("r")
    for command in ("qmp_capabilities", "system_powerdown"):
        monitor.sendall(json.dumps({"execute": command}).encode())
    ended = next(event for line in lines if (event := json.loads(line)).get("event") == "SHUTDOWN")
    assert ended["data"] == {"guest": True, "reason": "guest-shutdown"}
