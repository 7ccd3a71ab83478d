"""The accelerator is probed by booting once, and the result is kept while host and QEMU are the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.runtimes.interface import RuntimeRefused
from tarmac.runtimes.qemu import accelerator
from tarmac.runtimes.qemu.machine import Accelerator


class Host:
    """A host that boots with these accelerators only."""

    def __init__(self, *works: Accelerator) -> None:
        self.works = works
        self.tried: list[Accelerator] = []

    async def boot(self, kind: Accelerator) -> str:
        self.tried.append(kind)
        return "" if kind in self.works else f"{kind}: it hangs"


@pytest.fixture
def kvm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "kvm_group", lambda: 7)


@pytest.mark.usefixtures("kvm")
async def test_kvm_is_used_where_a_kernel_comes_up_with_it() -> None:
    host = Host("kvm", "tcg")
    assert (await accelerator.decide("7", host.boot)).accelerator == "kvm"
    assert host.tried == ["kvm"]


@pytest.mark.usefixtures("kvm")
async def test_a_device_that_opens_and_does_not_boot_means_translation() -> None:
    kept = await accelerator.decide("7", Host("tcg").boot)
    assert (kept.accelerator, kept.why) == ("tcg", "kvm: it hangs")


async def test_a_device_that_its_group_cannot_open_is_not_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(accelerator, "kvm_group", lambda: None)
    host = Host("kvm", "tcg")
    assert (await accelerator.decide("7", host.boot)).accelerator == "tcg"
    assert host.tried == ["tcg"]


@pytest.mark.usefixtures("kvm")
async def test_machines_are_refused_when_no_accelerator_boots() -> None:
    with pytest.raises(RuntimeRefused, match="tcg: it hangs"):
        await accelerator.decide("7", Host().boot)


async def test_a_probe_is_repeated_only_for_another_qemu_or_boot(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    host, version = Host("tcg"), ["7.2"]

    async def versions() -> str:
        return version[0]

    monkeypatch.setattr(accelerator, "kvm_group", lambda: None)
    monkeypatch.setattr(accelerator, "_version", versions)
    monkeypatch.setattr(accelerator, "_boot", lambda kind, _boot: host.boot(kind))
    monkeypatch.setattr(accelerator.shutil, "which", lambda _name: "/usr/bin/qemu")
    file, kernel = tmp_path / "accelerator.json", accelerator.BootFiles(Path("/kernel"))
    for _ in range(2):
        assert (await accelerator.probe(file, kernel)).accelerator == "tcg"
    assert (await accelerator.probe(file, None)).accelerator == "tcg"
    assert len(host.tried) == 1
    version[0] = "8.0"
    await accelerator.probe(file, kernel)
    assert len(host.tried) == 2
    monkeypatch.setattr(accelerator, "_boot_id", lambda: "another")
    with pytest.raises(RuntimeRefused, match="no kernel to try it with"):
        await accelerator.probe(file, None)
