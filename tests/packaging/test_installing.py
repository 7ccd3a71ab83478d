"""Installing, upgrading, removing and purging, on fresh roots of Debian 12 and 13: only expected files change.

All changes of a machine's disk land in one folder, so that no file can be overlooked.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.machines.boxes import until
from tests.machines.packaged import package
from tests.machines.sites import SiteBox, sites
from tools.debian_roots import RELEASES, ensure

pytestmark = [
    pytest.mark.root,
    pytest.mark.timeout(900),
    pytest.mark.soak(minutes=2, only=True),
]
# Files of the package; bytecode is made where it is installed.
_OURS = re.compile(
    "/opt(/tarmac(/.*)?)?|/usr/bin/tarmac|/usr/lib/systemd/system/tarmac-[a-z]+[.]service"
    "|/usr/share/man/man8/tarmac[a-z-]*[.]8|/usr/share/doc/tarmac/copyright|/usr/share/bash-completion/completions/tarmac"
    "|/usr/share/zsh/vendor-completions/_tarmac|/usr/share/fish/vendor_completions[.]d/tarmac[.]fish"
)
# Files of dpkg.
_BOOKS = re.compile("/var/(lib/dpkg|log|cache)(/.*)?")
_CONFIG = {"/etc/tarmac", "/etc/tarmac/config.yaml"}
_KEPT = {"/etc/tarmac/config.yaml": "kept", "/var/lib/tarmac/store.db": "kept"}
_SHIM = "exec -a containerd-shim-runc-v2 python3 -c 'import time; time.sleep(600)' /run/tarmac/containerd/c.sock"


@pytest.mark.parametrize("debian", RELEASES)
def test_installing_upgrading_removing_and_purging_change_nothing_they_should_not(tmp_path: Path, debian: str) -> None:
    deb = package(debian)
    newer = newer_than(deb, tmp_path)
    with sites(tmp_path / "machines", fresh=ensure(debian)) as (box,):
        box.path("/etc/tarmac/config.yaml").unlink()
        box.path("/etc/tarmac").rmdir()
        before = files(tmp_path, debian)
        said = box.install(deb)
        assert "nothing is started" in said
        assert box.processes() == []
        installed = files(tmp_path, debian) - before
        assert strange(installed) == set()
        assert run(box, "tarmac", "version").stdout.startswith("tarmac ")
        box.path("/etc/tarmac").mkdir()
        for name, text in _KEPT.items():
            box.path(name).write_text(text)

        said = box.install(newer)
        assert box.processes() == []
        assert files(tmp_path, debian) - before - _CONFIG == installed, "an upgrade leaves the same files"
        assert_kept(box)

        done = run(box, "dpkg", "--remove", "tarmac")
        assert done.returncode == 0, done.stderr
        assert {each for each in files(tmp_path, debian) - before if not _BOOKS.fullmatch(each)} == _CONFIG
        assert_kept(box)

        shim = subprocess.Popen(box.command("bash", "-c", _SHIM))
        try:
            until(lambda: any("containerd-shim" in each for each in box.processes()))
            refused = run(box, "dpkg", "--purge", "tarmac")
            assert refused.returncode != 0
            assert "pods still run here" in refused.stderr
            assert_kept(box)
        finally:
            for pid in Path(f"/proc/{shim.pid}/task/{shim.pid}/children").read_text().split():
                os.kill(int(pid), 9)
            shim.wait(20)
        assert run(box, "dpkg", "--purge", "tarmac").returncode == 0
        assert {each for each in files(tmp_path, debian) - before if not _BOOKS.fullmatch(each)} == set()
        assert list(box.path("/var/lib/tarmac").iterdir()) == []


def newer_than(deb: Path, folder: Path) -> Path:
    """Return the same package with a higher version."""
    tree, made = folder / "newer", folder / "newer.deb"
    subprocess.run(["dpkg-deb", "--raw-extract", str(deb), str(tree)], check=True)
    control = tree / "DEBIAN" / "control"
    control.write_text(re.sub("^(Version: .*)$", r"\1+next", control.read_text(), flags=re.MULTILINE))
    subprocess.run(
        ["dpkg-deb", "-Zzstd", "-z1", "--build", str(tree), str(made)], check=True, stdout=subprocess.DEVNULL
    )
    return made


def files(folder: Path, debian: str) -> set[str]:
    """Return all files on the machine's disk that differ from the fresh root, without folders of both.

    A removed file appears as a device of the overlay, which is no file.
    """
    disk, root = folder / "machines" / "fresh" / "disk", ensure(debian)
    found = {each.relative_to(disk) for each in disk.rglob("*") if each.is_symlink() or each.is_dir() or each.is_file()}
    new = {each for each in found if not ((disk / each).is_dir() and (root / each).is_dir())}
    return {f"/{each}" for each in new if "__pycache__" not in each.parts}


def strange(found: set[str]) -> set[str]:
    """Return files that are neither ours nor dpkg's, nor a folder on the way there."""
    ours = {each for each in found if _OURS.fullmatch(each)}
    above = {str(parent) for each in ours for parent in Path(each).parents}
    return {each for each in found - ours - above if not _BOOKS.fullmatch(each)}


def run(box: SiteBox, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(box.command(*words), capture_output=True, text=True, timeout=200, env=box.environment())


def assert_kept(box: SiteBox) -> None:
    assert {name: box.path(name).read_text() for name in _KEPT} == _KEPT, "configuration and data stay"
