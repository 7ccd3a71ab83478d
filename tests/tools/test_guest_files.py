"""Files of guests are the same bytes every time, valid for the kernel and e2fsprogs; drivers come in order."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from tools.cache import ROOT
from tools.guestfiles import run_tool, write_cpio, write_ext4
from tools.kernelmodules import drivers, in_order
from tools.oci import Entry

_FILES = [
    Entry("bin"),
    Entry("bin/tool", b"#!/bin/sh\n"),
    Entry("bin/same", hard_link="bin/tool"),
    Entry("etc", mode=0o700),
    Entry("etc/text", b"one\n", 0o640),
    Entry("etc/link", symbolic_link="text"),
]
_AWK = ROOT / "tools" / "guest" / "tiny" / "vendor.awk"


def test_an_initial_filesystem_is_the_same_bytes_and_unpacks(tmp_path: Path) -> None:
    for name in "12":
        write_cpio(_FILES, tmp_path / name)
    assert (tmp_path / "1").read_bytes() == (tmp_path / "2").read_bytes()
    record = (tmp_path / "1").read_bytes()
    assert record.startswith(b"070701")
    assert b"\0bin/tool\0" in record.replace(b"bin/tool\0", b"\0bin/tool\0", 1)
    assert b"TRAILER!!!" in record
    assert len(record) % 4 == 0


def test_a_disk_is_the_same_bytes_and_has_its_files(tmp_path: Path) -> None:
    disks = [tmp_path / name for name in "12"]
    for disk in disks:
        write_ext4(_FILES, disk, 8 << 20, "test")
    assert disks[0].read_bytes() == disks[1].read_bytes()
    run_tool("e2fsck", "-fn", str(disks[0]))
    assert "one" in run_tool("debugfs", "-R", "cat /etc/text", str(disks[0]))
    told = run_tool("debugfs", "-R", "stat /etc/text", str(disks[0]))
    assert "Mode:  0640" in told
    assert 'Fast link dest: "/bin/tool"' in run_tool("debugfs", "-R", "stat /bin/same", str(disks[0]))


def test_a_disk_that_cannot_be_filled_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="could not be filled"):
        write_ext4([Entry("no/such/folder/file", b"x")], tmp_path / "disk", 8 << 20, "test")


def _kernel(folder: Path, **needs: str) -> Path:
    modules = folder / "lib" / "modules" / "6.1"
    modules.mkdir(parents=True)
    (modules / "modules.builtin").write_text("kernel/fs/ext4/ext4.ko\n")
    for name, needed in needs.items():
        (modules / f"{name}.ko").write_bytes(b"\0license=GPL\0depends=" + needed.encode() + b"\0")
    return folder


def test_drivers_come_after_those_that_they_need_and_once(tmp_path: Path) -> None:
    known = drivers(
        _kernel(tmp_path, isofs="cdrom", cdrom="", virtio_net="net_failover", net_failover="failover", failover="")
    )
    found = [path.stem for path in in_order(known, ["isofs", "ext4", "virtio-net", "cdrom"])]
    assert found == ["cdrom", "isofs", "failover", "net_failover", "virtio_net"]


def test_a_driver_that_the_kernel_does_not_have_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="no driver sound"):
        in_order(drivers(_kernel(tmp_path)), ["sound"])


@pytest.mark.skipif(shutil.which("awk") is None, reason="NO awk on this machine")
def test_the_small_image_reads_users_mounts_and_names_of_disks(tmp_path: Path) -> None:
    from tarmac.runtimes.qemu.seed.vendor import GuestDisk, vendor_data

    disks = [
        GuestDisk("logs", "logs", "/var/log/my app"),
        GuestDisk("conf", "con", "/etc/conf", "iso9660", read_only=True),
    ]
    keys = 'root:ssh-ed25519 AAAA me\nann:command="a \\ b",no-pty ssh-rsa BBBB, ] sudo: x\nroot:ssh-rsa CCCC'
    (tmp_path / "vendor-data").write_text(vendor_data(disks, keys))
    read = subprocess.run(
        ["awk", "-f", str(_AWK), str(tmp_path / "vendor-data")], capture_output=True, text=True, check=True
    )
    assert [line.split("\t") for line in read.stdout.splitlines()] == [
        ["link", "logs", "disk/by-id/datumcloud-logs"],
        ["link", "con", "disk/by-id/datumcloud-conf"],
        ["user", "root"],
        ["key", "ssh-ed25519 AAAA me"],
        ["key", "ssh-rsa CCCC"],
        ["user", "ann"],
        ["key", 'command="a \\ b",no-pty ssh-rsa BBBB, ] sudo: x'],
        ["mount", "/dev/disk/by-id/virtio-logs", "/var/log/my app", "ext4", "defaults,nofail"],
        ["mount", "/dev/disk/by-id/virtio-con", "/etc/conf", "iso9660", "ro,nofail"],
    ]
