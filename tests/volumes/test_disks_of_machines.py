"""A virtual machine gets its disks as files: filled with an image or a file system, grown offline, no loop device."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tarmac.runtimes.qemu.launching import variables_of
from tarmac.volumes.interface import Unusable, VolumeNotReady
from tarmac.volumes.layout import VolumeLayout
from tarmac.volumes.linux import diskimages
from tarmac.volumes.linux.diskimages import copy_disk
from tarmac.volumes.linux.loops import loops
from tarmac.volumes.linux.medium import LinuxMedium
from tarmac.volumes.medium import MediumFault
from tests.volumes.bench import MIB, UID, Bench, claim, machine

GROUP = "compute.datumapis.com"


def populate(bench: Bench, name: str, **notes: str) -> None:
    bench.sources.claims[f"default/{name}"]["metadata"]["annotations"] = {
        f"{GROUP}/{note.replace('_', '-')}": value for note, value in notes.items()
    }


def sparse(path: Path, size: int, **content: bytes) -> Path:
    """Write a raw image with content at places named `at<offset>`."""
    with path.open("wb") as file:
        file.truncate(size)
        for place, text in content.items():
            file.seek(int(place[2:]))
            file.write(text)
    return path


def signature(path: str) -> str:
    return subprocess.run(["blkid", "-p", "-o", "export", path], capture_output=True, text=True, check=True).stdout


def written(path: str, text: bytes) -> None:
    with open(path, "r+b") as file:
        file.write(text)


def read(path: str) -> bytes:
    with open(path, "rb") as file:
        return file.read()


async def test_a_boot_disk_begins_with_its_image_and_is_as_large_as_was_asked_for(bench: Bench, tmp_path: Path) -> None:
    bench.sources.machine_images["acme/os"] = str(sparse(tmp_path / "os", 4 * MIB, at0=b"boot", at3145728=b"end"))
    bench.add_disk("boot", "16Mi", "Block")
    populate(bench, "boot", populate_from_image="acme/os")
    found = (await bench.volumes.mount(machine("boot")))["boot"]
    assert found.device
    content = read(found.path)
    assert (content[:4], content[3 * MIB : 3 * MIB + 3], len(content)) == (b"boot", b"end", 16 * MIB)
    assert os.readlink(bench.layout.device(UID, "boot")) == found.path
    written(found.path, b"written by the guest")
    bench.restart()
    again = (await bench.volumes.mount(machine("boot")))["boot"]
    assert again == found
    assert read(found.path)[:20] == b"written by the guest"  # filled once, at the first mount


async def test_an_image_that_cannot_be_had_is_waited_for(bench: Bench) -> None:
    bench.add_disk("boot", "16Mi", "Block")
    populate(bench, "boot", populate_from_image="acme/os")
    with pytest.raises(VolumeNotReady, match='image "acme/os" cannot be had') as caught:
        await bench.volumes.mount(machine("boot"))
    assert caught.value.volume == "boot"
    assert await bench.volumes.disks() == []


async def test_a_disk_in_use_by_a_machine_stays_until_the_machine_is_gone(bench: Bench) -> None:
    bench.add_disk("data", "16Mi", "Block")
    await bench.volumes.mount(machine("data"))
    with pytest.raises(VolumeNotReady, match="in use"):
        await bench.volumes.remove_disk("pv-data")
    await bench.volumes.unmount(UID)
    await bench.volumes.remove_disk("pv-data")
    assert await bench.volumes.disks() == []


async def test_a_disk_that_grows_is_told_to_the_machine_and_then_to_its_claim(bench: Bench) -> None:
    bench.add_disk("data", "16Mi", "Block")
    mounted = (await bench.volumes.mount(machine("data")))["data"]
    assert bench.grown == []
    bench.sources.persistent_volumes["pv-data"]["spec"]["capacity"]["storage"] = "24Mi"
    bench.machine_answers = False
    with pytest.raises(VolumeNotReady, match="does not answer"):
        await bench.volumes.refresh(machine("data"))
    assert bench.sources.sizes_told == {}
    bench.machine_answers = True
    bench.restart()
    await bench.volumes.refresh(machine("data"))
    assert os.stat(mounted.path).st_size == 24 * MIB
    assert bench.grown == [(UID, "data", 24 * MIB)]
    assert bench.sources.sizes_told == {"data": "24Mi"}


async def test_while_the_server_is_away_a_machine_keeps_its_disks(bench: Bench) -> None:
    bench.add_disk("data", "16Mi", "Block")
    before = await bench.volumes.mount(machine("data"))
    bench.sources.away = True
    assert await bench.volumes.mount(machine("data")) == before


async def test_a_container_has_no_operating_system_for_a_disk(bench: Bench) -> None:
    bench.add_disk("disk", "16Mi", "Block")
    populate(bench, "disk", populate_from_image="acme/os")
    with pytest.raises(Unusable, match="only a disk with a filesystem of its own"):
        await bench.mount(claim("disk"))


@pytest.mark.root
async def test_a_data_disk_is_made_with_a_labelled_filesystem_once_and_no_loop_device(linux: Bench) -> None:
    linux.add_disk("logs-of-the-application", "16Mi", "Block")
    populate(linux, "logs-of-the-application", populate_filesystem="ext4")
    pod = machine("logs-of-the-application")
    path = (await linux.volumes.mount(pod))["logs-of-the-application"].path
    assert path == f"{linux.root}/disks/pv-logs-of-the-application.img"
    assert loops(linux.layout.disks) == []
    told = signature(path)
    assert "TYPE=ext4" in told
    assert "LABEL=logs-of-the-appl" in told
    linux.restart()
    await linux.volumes.mount(pod)
    assert signature(path) == told


@pytest.mark.root
async def test_other_filesystems_are_not_offered_and_none_is_made_unasked(linux: Bench) -> None:
    linux.add_disk("data", "16Mi", "Block")
    path = (await linux.volumes.mount(machine("data")))["data"].path
    assert os.stat(path).st_blocks == 0
    populate(linux, "data", populate_filesystem="xfs")
    with pytest.raises(Unusable, match="ext4 or nothing, not xfs"):
        await linux.volumes.mount(machine("data"))


@pytest.mark.parametrize("kernel_copies", [True, False])
def test_copying_leaves_holes_as_they_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kernel_copies: bool) -> None:
    def refused(*_: int) -> int:
        raise OSError(18, "Invalid cross-device link")

    if not kernel_copies:
        monkeypatch.setattr(diskimages.os, "copy_file_range", refused)
    source = sparse(tmp_path / "source", 64 * MIB, at0=b"boot", at41943040=b"x" * 3 * MIB)
    target = sparse(tmp_path / "target", 80 * MIB)
    copy_disk(str(source), str(target))
    assert target.read_bytes() == source.read_bytes() + bytes(16 * MIB)
    assert target.stat().st_blocks * 512 < 8 * MIB


def test_an_image_that_is_larger_than_the_disk_is_refused(tmp_path: Path) -> None:
    source, target = sparse(tmp_path / "source", 2 * MIB), sparse(tmp_path / "target", MIB)
    with pytest.raises(MediumFault, match="the image has 2097152 bytes, and the disk only 1048576"):
        copy_disk(str(source), str(target))


def test_firmware_variables_are_removed_with_the_boot_disk(tmp_path: Path) -> None:
    layout = VolumeLayout(str(tmp_path))
    os.makedirs(layout.disks)
    disk, beside = Path(layout.disk("pvc-1.2")), Path(layout.disk("pvc-1"))
    variables = variables_of(str(sparse(disk, MIB)), tmp_path)
    for each in (variables, variables_of(str(sparse(beside, MIB)), tmp_path)):
        each.write_bytes(b"boot entries")
    assert str(variables) == layout.variables("pvc-1.2")
    LinuxMedium(layout).remove_disk("pvc-1.2")
    assert sorted(os.listdir(layout.disks)) == ["pvc-1.img", "pvc-1.nvram"]
