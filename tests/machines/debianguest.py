"""A Debian 12 that boots in QEMU with a kernel, a systemd and disks of its own, and plays a script at each boot.

Its only network is QEMU's, cut off from the outside. It reports through its serial port, which is a file here.
"""

from __future__ import annotations

import shutil
import subprocess
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tools.debian_roots import ensure
from tools.debs import fetch
from tools.guestfiles import run_tool
from tools.machine_images import KERNEL, ensure_tiny

_SYSTEM = ("systemd-sysv", "udev", "kmod", "dbus")
_SIZE = "12G"
_UNIT = """[Unit]
Wants=network-online.target
After=network-online.target dbus.service
[Service]
Type=exec
ExecStart=/usr/local/sbin/trial
TimeoutStopSec=20
[Install]
WantedBy=multi-user.target
"""
# A gateway, as hosts have one: QEMU drops all packets that leave.
_NETWORK = "[Match]\nName=e*\n[Network]\nAddress=10.0.2.15/24\nGateway=10.0.2.2\n"
# Units start slowly where the processor is emulated.
_COMMAND_LINE = "console=ttyS0 quiet loglevel=4 root=/dev/vda systemd.default_timeout_start_sec=900"


def make_disk(folder: Path, script: str, files: Mapping[str, bytes | Path]) -> Path:
    """Make the disk: a fresh root, the kernel's modules, files by their place, and the script of each boot."""
    tree, disk = folder / "tree", folder / "disk"
    run_tool("cp", "-a", "--reflink=auto", str(ensure("12", _SYSTEM)), str(tree))
    modules = fetch(*KERNEL).parents[4] / "lib" / "modules"
    shutil.copytree(modules, tree / "usr/lib/modules", dirs_exist_ok=True)
    ours: dict[str, bytes | Path] = {
        "etc/hostname": b"dallas\n",
        "etc/machine-id": b"",
        "etc/systemd/network/10.network": _NETWORK.encode(),
        "etc/systemd/system/trial.service": _UNIT.encode(),
        "usr/local/sbin/trial": script.encode(),
        **files,
    }
    for place, content in ours.items():
        path = tree / place
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.read_bytes() if isinstance(content, Path) else content)
        path.chmod(0o755 if "bin/" in place else 0o644)
    for each in modules.iterdir():
        run_tool("chroot", str(tree), "depmod", each.name)
    units = ("systemd-networkd.service", "systemd-networkd-wait-online.service", "trial.service")
    run_tool("chroot", str(tree), "systemctl", "--quiet", "enable", *units)
    # A login prompt hangs up the serial port under the script's feet.
    run_tool("chroot", str(tree), "systemctl", "--quiet", "mask", "serial-getty@ttyS0.service")
    run_tool("mkfs.ext4", "-q", "-F", "-m", "0", "-d", str(tree), str(disk), _SIZE)
    shutil.rmtree(tree)
    return disk


class Guest:
    """A running machine, and everything that it has reported."""

    def __init__(self, process: subprocess.Popen[bytes], serial: Path) -> None:
        self._process, self._serial = process, serial

    @property
    def said(self) -> str:
        """Return the output at its serial port."""
        return self._serial.read_text(errors="replace") if self._serial.exists() else ""

    def until_said(self, text: str, seconds: float) -> None:
        """Wait for a line; fail with the output if the machine stops, reports a failure or is late."""
        deadline = time.monotonic() + seconds
        while text not in self.said:
            assert "trial: broken" not in self.said, self.said[-8000:]
            assert self._process.poll() is None or text in self.said, f"it ended without {text!r}:\n{self.said[-8000:]}"
            assert time.monotonic() < deadline, f"no {text!r} in time:\n{self.said[-8000:]}"
            time.sleep(1)


@contextmanager
def booted(folder: Path, disk: Path) -> Generator[Guest]:
    """Boot a disk; the machine ends with the block."""
    boot, serial = ensure_tiny(), folder / "serial"
    command = [
        "qemu-system-x86_64", "-nodefaults", "-display", "none", "-accel", "tcg,thread=multi",
        "-cpu", "max", "-smp", "2", "-m", "3072", "-kernel", str(boot / "vmlinuz"), "-initrd", str(boot / "initrd"),
        "-append", _COMMAND_LINE, "-drive", f"file={disk},format=raw,if=virtio,cache=unsafe,discard=unmap",
        "-netdev", "user,id=n,restrict=on", "-device", "virtio-net-pci,netdev=n", "-device", "virtio-rng-pci",
        "-serial", f"file:{serial}",
    ]  # fmt: skip
    with (folder / "qemu.log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL)
    try:
        yield Guest(process, serial)
    finally:
        process.kill()
        process.wait(20)
