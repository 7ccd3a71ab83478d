"""Parts are found on the PATH first, related ones in one place, and a missing one says how to get it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tarmac.runtimes.parts import FIRST_LINE, PartMissing, find_machine_parts, find_parts, find_program
from tools.cache import ROOT

_ALL = ("containerd", "ctr", "containerd-shim-runc-v2", "runc", "runsc", "containerd-shim-runsc-v1")


def _programs(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("#!/bin/sh\n")
        (folder / name).chmod(0o755)
    return folder


@pytest.fixture
def ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder as set-up fills it."""
    folder = tmp_path / "node"
    _programs(folder / "bin", *_ALL)
    _programs(folder / "cni", "loopback")
    monkeypatch.setenv("TARMAC_NODE_PARTS", str(folder))
    return folder


def test_parts_missing_in_the_path_come_from_set_up(ours: Path, tmp_path: Path) -> None:
    parts = find_parts(path=str(tmp_path / "empty"))
    assert parts.containerd == ours / "bin" / "containerd"
    assert parts.runsc == ours / "bin" / "runsc"
    assert parts.no_gvisor == ""


def test_the_path_comes_first(ours: Path, tmp_path: Path) -> None:
    system = _programs(tmp_path / "system", "runc")
    parts = find_parts(path=str(system))
    assert parts.runc == system / "runc"
    assert parts.containerd == ours / "bin" / "containerd"
    assert parts.path.split(":")[:2] == [str(ours / "bin"), str(system)]


def test_a_gvisor_without_its_shim_is_not_mixed_with_ours(ours: Path, tmp_path: Path) -> None:
    system = _programs(tmp_path / "system", "runsc")
    assert find_parts(path=str(system)).runsc == ours / "bin" / "runsc"


def test_without_gvisor_it_says_why(ours: Path) -> None:
    (ours / "bin" / "containerd-shim-runsc-v1").unlink()
    assert "containerd-shim-runsc-v1" in find_parts(path="").no_gvisor
    (ours / "no-gvisor").write_text("it could not be built: no network\n")
    parts = find_parts(path="")
    assert (parts.runsc, parts.no_gvisor) == (None, "it could not be built: no network")


def test_a_missing_part_says_how_to_get_it(ours: Path) -> None:
    (ours / "bin" / "runc").unlink()
    with pytest.raises(PartMissing, match=r"no runc on the PATH nor in .*make setup"):
        find_parts(path="")
    with pytest.raises(PartMissing, match="no docker-registry"):
        find_program("docker-registry", path="")


def test_virtual_machines_need_qemu_and_a_kernel_to_prove_it_with(ours: Path, tmp_path: Path) -> None:
    with pytest.raises(
        PartMissing, match="no qemu-system-x86_64 and qemu-img on the PATH: run `apt install tarmac-machines`"
    ):
        find_machine_parts(path="")
    system = _programs(tmp_path / "system", "qemu-system-x86_64", "qemu-img")
    with pytest.raises(
        PartMissing, match=r"no vmlinuz for virtual machines in .*apt install tarmac-machines`, .*make node-parts"
    ):
        find_machine_parts(path=str(system))
    for name in ("vmlinuz", "initrd"):
        (ours / "machine-images").mkdir(exist_ok=True)
        (ours / "machine-images" / name).write_text("")
    found = find_machine_parts(path=str(system))
    assert (found.qemu, found.kernel) == (system / "qemu-system-x86_64", ours / "machine-images" / "vmlinuz")
    assert found.images == ours / "machine-images"


def test_the_line_that_proves_a_guest_is_the_one_that_guests_say() -> None:
    assert f'echo "{FIRST_LINE}"' in (ROOT / "tools" / "guest" / "init").read_text()
