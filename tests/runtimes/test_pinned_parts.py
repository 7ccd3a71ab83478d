"""Programs of running sandboxes stay pinned, and are removed when no process runs from them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tarmac.runtimes.parts import NodeParts
from tarmac.runtimes.pinnedparts import drop_unused, pinned


def _install(folder: Path, version: str) -> NodeParts:
    """Install like dpkg: a new file replaces the name."""
    names = ("containerd", "ctr", "shim", "runc")
    for place, name in [*(("bin", name) for name in names), ("cni", "loopback")]:
        path = folder / place / name
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(f"#!/bin/sh\necho {version}\nexec sleep 100\n")
        new.chmod(0o755)
        new.replace(path)
    containerd, ctr, shim, runc = (folder / "bin" / name for name in names)
    return NodeParts(containerd, ctr, shim, runc, None, None, "not here", folder / "cni", ())


def test_a_new_package_changes_nothing_that_was_linked(tmp_path: Path) -> None:
    installed = _install(tmp_path / "usr", "one")
    first = pinned(installed, tmp_path / "parts")
    assert pinned(installed, tmp_path / "parts") == first, "the same set is one folder"
    second = pinned(_install(tmp_path / "usr", "twenty-two"), tmp_path / "parts")
    assert second.runc != first.runc
    assert ("one" in first.runc.read_text(), "twenty-two" in second.runc.read_text()) == (True, True)
    assert second.cni == second.runc.parents[1] / "cni"
    assert os.access(second.cni / "loopback", os.X_OK)
    assert second.runsc is None


def test_folders_go_when_no_process_runs_from_them(tmp_path: Path) -> None:
    parts = _install(tmp_path / "usr", "one")
    shell = Path("/bin/sleep").resolve()
    (tmp_path / "usr" / "bin" / "shim").unlink()
    (tmp_path / "usr" / "bin" / "shim").write_bytes(shell.read_bytes())
    (tmp_path / "usr" / "bin" / "shim").chmod(0o755)
    first = pinned(parts, tmp_path / "parts")
    with subprocess.Popen([str(first.containerd_shim), "100"]) as shim:
        second = pinned(_install(tmp_path / "usr", "twenty-two"), tmp_path / "parts")
        assert drop_unused(tmp_path / "parts", second) == []
        assert first.runc.exists(), "a shim still calls it"
        shim.kill()
    assert drop_unused(tmp_path / "parts", second) == [first.cni.parent]
    assert second.runc.exists()


def test_a_killed_linking_is_begun_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = _install(tmp_path / "usr", "one")

    def die(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("tarmac.runtimes.pinnedparts.os.link", die)
        with pytest.raises(KeyboardInterrupt):
            pinned(parts, tmp_path / "parts")
    assert pinned(parts, tmp_path / "parts").runc.exists()
    assert len(list((tmp_path / "parts").iterdir())) == 1
