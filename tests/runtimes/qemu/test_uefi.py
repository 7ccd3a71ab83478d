"""Images that start by UEFI: the firmware boots them, and its variables stay with the boot disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.runtimes.interface import Device, RuntimeRefused
from tarmac.runtimes.parts import PartMissing, find_machine_parts
from tarmac.runtimes.qemu import launching
from tarmac.runtimes.qemu.dependencies import BootFiles
from tests.runtimes.machine import QemuMachine, Running
from tests.support.qemunode import OVERHEAD

MEMORY = 160 << 20


async def boots(qemu: QemuMachine) -> Running:
    """A machine with UEFI firmware and an empty boot disk."""
    if not launching.CODE.exists():
        pytest.skip("NOT RUN: there is no UEFI firmware here (apt-get install ovmf)")
    qemu.node.images.uefi = True
    disk = qemu.node.folder / "boot.img"
    disk.write_bytes(bytes(1 << 20))
    config = qemu.node.booting(Device("/dev/disk/by-id/datumcloud-boot", str(disk)), memory=MEMORY)
    return await qemu.run(config, memory=MEMORY + OVERHEAD)


@pytest.mark.root
@pytest.mark.timeout(120)
async def test_the_firmware_looks_for_something_to_boot_on_the_boot_disk(qemu: QemuMachine) -> None:
    said = await (await boots(qemu)).log("BdsDxe: failed to load Boot", patience=100)
    assert "Misc Device" in said
    assert (qemu.node.folder / "boot.nvram").stat().st_mode & 0o777 == 0o600


@pytest.mark.root
@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.soak(minutes=2, only=True)
async def test_a_kernel_beside_the_image_comes_up_by_uefi_firmware(qemu: QemuMachine) -> None:
    try:
        parts = find_machine_parts()
    except PartMissing as missing:
        pytest.skip(f"NOT RUN: {missing}")
    qemu.node.images.boot = BootFiles(parts.kernel, parts.initrd, "console=ttyS0 no_timer_check panic=-1")
    said = await (await boots(qemu)).log("the kernel runs", patience=200)
    assert "by EDK II" in said


def test_variables_are_made_once_beside_the_boot_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    template, code, disk = tmp_path / "template", tmp_path / "code", tmp_path / "pvc-1.2.img"
    for each in (template, code, disk):
        each.write_text("fresh")
    monkeypatch.setattr(launching, "_TEMPLATE", template)
    monkeypatch.setattr(launching, "CODE", code)
    where = launching.variables_of(str(disk), tmp_path / "logs")
    assert where == tmp_path / "pvc-1.2.nvram"
    where.with_suffix(".nvram~").write_text("an agent was killed here")
    assert launching.make_variables(where).read_text() == "fresh"
    where.write_text("remembered")
    assert launching.make_variables(where).read_text() == "remembered"


def test_a_boot_disk_that_is_no_file_has_its_variables_with_the_log(tmp_path: Path) -> None:
    assert launching.variables_of("/dev/null", tmp_path) == tmp_path / "firmware.nvram"


def test_a_node_without_firmware_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launching, "CODE", tmp_path / "none")
    with pytest.raises(RuntimeRefused, match="ovmf"):
        launching.make_variables(tmp_path / "any.nvram")
    assert not list(tmp_path.iterdir())
