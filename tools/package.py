"""`python -m tools.package`: the Debian package of a commit, in `dist`, the same bytes each time it is built.

One package for Debian 12 and 13: libraries for the Python of either, which the launcher chooses between, and everything
real that a node is made of. Times are the commit's, owners are root, names are sorted, and no bytecode is in it: that
is made where it is installed. `--without-parts` leaves out the node's programs and images, which are large.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

from tarmac import __version__
from tarmac.cli.completing import SHELLS, script
from tarmac.cli.manual import pages
from tarmac.server.endpoints.commit import PACKAGED
from tools import node_parts
from tools.cache import ROOT, say

PYTHONS = ("3.11", "3.13")
EXTRAS = ("etcd", "cri", "cel", "fast")
DEPENDS = "python3 (>= 3.11), nftables, e2fsprogs, util-linux, libseccomp2"
UNITS = ("tarmac-server.service", "tarmac-containerd.service", "tarmac-agent.service")
SCRIPTS = ("postinst", "prerm", "postrm")
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/tarmac",
    "zsh": "usr/share/zsh/vendor-completions/_tarmac",
    "fish": "usr/share/fish/vendor_completions.d/tarmac.fish",
}
PARTS = ("bin", "cni", "images", "conntrackd")
_NOT_NEEDED = {"docker-registry"}
CONTROL = f"""\
Package: tarmac
Version: {__version__}
Architecture: amd64
Maintainer: The Tarmac authors <tarmac@localhost>
Section: admin
Priority: optional
Depends: {DEPENDS}
Description: one declarative object lands containers and virtual machines in many cities
 A platform with the API of Kubernetes: server, controllers and node agent. See
 tarmac init and tarmac join.
"""


def main() -> int:
    """Build it and print where it is."""
    options = argparse.ArgumentParser(prog="python -m tools.package", description=__doc__)
    options.add_argument("--without-parts", action="store_true", help="leave out containerd, runc, gVisor and images")
    options.add_argument("--python", action="append", default=[], choices=PYTHONS, help="only for this one; repeatable")
    options.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIR", help="where to (default: dist)")
    told = options.parse_args()
    parts = None if told.without_parts else node_parts.ensure()
    print(build(told.output, told.python or PYTHONS, parts))
    return 0


def build(output: Path, pythons: list[str] | tuple[str, ...] = PYTHONS, parts: Path | None = None) -> Path:
    """The package; `parts` is the folder of a node's programs and images, if they are to be in it."""
    output.mkdir(parents=True, exist_ok=True)
    final = output / f"tarmac_{__version__}_amd64.deb"
    with tempfile.TemporaryDirectory(prefix="tarmac-package-") as work:
        root = Path(work)
        for python in pythons:
            say(f"libraries for Python {python}")
            _libraries(root / "opt/tarmac/lib" / f"cp{python.replace('.', '')}", python)
        if parts is not None:
            say("programs and images of nodes")
            _parts(root / "opt/tarmac/parts", parts)
        _files(root)
        _pack(root, final)
    return final


def _libraries(folder: Path, python: str) -> None:
    """Wheels as they were locked, each checked by its hash, and Tarmac itself."""
    with tempfile.TemporaryDirectory() as work:
        wanted = Path(work) / "requirements.txt"
        wanted.write_text(_locked(python))
        exact = ["--only-binary", ":all:", "--require-hashes", "--no-deps", "--link-mode", "copy"]
        platform = ["--python-version", python, "--python-platform", "x86_64-manylinux_2_28"]
        _uv("install", "--target", str(folder), *platform, *exact, "--requirement", str(wanted))
    for name in ("bin", ".lock", "bazel-project"):  # what installers and wheels put beside the libraries
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    shutil.copytree(ROOT / "src/tarmac", folder / "tarmac", ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    _put(folder / "tarmac" / PACKAGED, f"{_git('rev-parse', 'HEAD')}\n".encode())


@cache
def _locked(python: str) -> str:
    """What of the lock file a machine needs, with the hashes of every wheel."""
    with tempfile.TemporaryDirectory() as work:
        wanted = Path(work) / "requirements.txt"
        extras = [word for extra in EXTRAS for word in ("--extra", extra)]
        locked = ["--generate-hashes", "--no-header", "--no-annotate", "--constraint", "requirements.lock"]
        _uv("compile", "pyproject.toml", *extras, *locked, "--python-version", python, "--output-file", str(wanted))
        return wanted.read_text()


def _uv(action: str, *words: str) -> None:
    uv = Path(sys.executable).parent / "uv"
    subprocess.run([str(uv), "pip", action, "--quiet", *words], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)


def _parts(folder: Path, parts: Path) -> None:
    """Links into the cache become what they lead to. What a node works without may not be there."""
    for name in (each for each in PARTS if (parts / each).exists()):
        shutil.copytree(parts / name, folder / name, ignore=lambda _, names: _NOT_NEEDED & set(names))


def _files(root: Path) -> None:
    packaging = ROOT / "packaging"
    _put(root / "usr/bin/tarmac", (packaging / "tarmac").read_bytes(), 0o755)
    for unit in UNITS:
        _put(root / "usr/lib/systemd/system" / unit, (packaging / unit).read_bytes())
    for name, text in pages(epoch()).items():
        _put(root / "usr/share/man/man8" / name, text.encode())
    for shell in SHELLS:
        _put(root / COMPLETIONS[shell], script(shell).encode())
    _put(root / "usr/share/doc/tarmac/copyright", (ROOT / "LICENSE").read_bytes())
    _put(root / "DEBIAN/control", CONTROL.encode())
    for name in SCRIPTS:
        _put(root / "DEBIAN" / name, (packaging / name).read_bytes(), 0o755)


def _put(path: Path, content: bytes, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    path.chmod(mode)


def epoch() -> int:
    """When the commit was made: the time of everything in the package."""
    return int(_git("log", "-1", "--format=%ct"))


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def _pack(root: Path, final: Path) -> None:
    when = epoch()
    for path in [*root.rglob("*"), root]:
        if not path.is_symlink():
            runs = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if runs else 0o644)
        os.utime(path, (when, when), follow_symlinks=False)
    partial = final.with_suffix(".part")
    command = ["dpkg-deb", "--root-owner-group", "-Zzstd", "-z6", "--build", str(root), str(partial)]
    environment = {**os.environ, "SOURCE_DATE_EPOCH": str(when)}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    partial.rename(final)


if __name__ == "__main__":
    sys.exit(main())
