"""`python -m tools.package`: the Debian packages of a commit, in `dist`, the same bytes each time they are built.

`tarmac` is built once for each system: libraries for its one Python, and all third-party parts of a node. It contains
no bytecode, which is made where it is installed. It recommends `tarmac-machines` (tools/machines_package.py), for
virtual machines. `--without-parts` leaves out the programs and images of nodes, which are large, and the second
package.
"""

from __future__ import annotations

import argparse
import platform
import shutil
import subprocess
import sys
import tempfile
from functools import cache, partial
from pathlib import Path

from tarmac import __version__
from tarmac.apps.manual import pages
from tarmac.cli.completing import SHELLS, script
from tarmac.server.endpoints.documents import PACKAGED
from tools import controllers_package, etcd_package, gobuild, machines_package, node_parts
from tools.cache import ROOT, cache_root, say
from tools.packing import epoch, git, pack, put

SYSTEMS = {"bookworm": "3.11", "noble": "3.12", "trixie": "3.13"}
"""The systems with a package, and the Python of each: Debian 12, Ubuntu 24.04 and Debian 13."""
MAX_BYTES = 65_000_000
EXTRAS = ("etcd", "cri", "cel", "fast")
DEPENDS = "python3 (>= 3.11), nftables, e2fsprogs, util-linux, libseccomp2"
"""The dependencies; `depends` adds the upper limit of Python's version, which differs from system to system."""
UNITS = ("tarmac-server.service", "tarmac-containerd.service", "tarmac-agent.service")
SCRIPTS = ("preinst", "postinst", "prerm", "postrm")
COMPLETIONS = {
    "bash": "usr/share/bash-completion/completions/tarmac",
    "zsh": "usr/share/zsh/vendor-completions/_tarmac",
    "fish": "usr/share/fish/vendor_completions.d/tarmac.fish",
}
PARTS = ("bin", "cni", "images", "bird", "conntrackd")
_NOT_NEEDED = {"docker-registry", "kube-controller-manager"}
_LEFT_BEHIND = ("bin", ".lock", "bazel-project", "apsw/tests", "apsw/sqlite_extra_binaries", "cel_expr_python/ext")
"""Files that installers and wheels put beside the libraries, and extensions that no module of Tarmac loads."""
_CNI_PLUGINS = {"loopback"}  # the rest of a pod's network is the agent's own
CONTROL = f"""\
Package: tarmac
Version: {__version__}
Architecture: amd64
Maintainer: The Tarmac authors <tarmac@localhost>
Section: admin
Priority: optional
Depends: {{depends}}
Recommends: {machines_package.NAME}
Description: one declarative object lands containers and virtual machines in many cities
 A platform with the API of Kubernetes: server, controllers and node agent. See
 tarmac init and tarmac join.
"""


def main() -> int:
    """Build the packages and print their paths."""
    parser = argparse.ArgumentParser(prog="python -m tools.package", description=__doc__)
    parser.add_argument("--without-parts", action="store_true", help="leave out containerd, runc, gVisor and images")
    stock = "also tarmac-kubernetes-controllers, with stock kube-controller-manager"
    parser.add_argument("--with-kubernetes-controllers", action="store_true", help=stock)
    parser.add_argument("--with-etcd", action="store_true", help="also tarmac-etcd, with etcd for several servers")
    parser.add_argument("--system", action="append", default=[], choices=SYSTEMS, help="for this one; repeatable")
    parser.add_argument("--all", action="store_true", help="for all systems: " + ", ".join(SYSTEMS))
    parser.add_argument("--fast", action="store_true", help="compress less, in a tenth of the time")
    parser.add_argument("--output", type=Path, default=ROOT / "dist", metavar="DIR", help="where to (default: dist)")
    options = parser.parse_args()
    try:
        parts = None if options.without_parts else node_parts.ensure()
        for system in SYSTEMS if options.all else options.system or [own_system()]:
            made = build(options.output, system, parts, fast=options.fast)
            print(made)
            if not options.fast and made.stat().st_size > MAX_BYTES:
                raise RuntimeError(f"{made.name} has {made.stat().st_size} bytes, the limit is {MAX_BYTES}")
        if parts is not None:
            print(machines_package.build(options.output, parts))
        if options.with_etcd:
            print(etcd_package.build(options.output, gobuild.build("etcd"), fast=options.fast))
        if options.with_kubernetes_controllers:
            print(controllers_package.build(options.output, cache_root() / "node", fast=options.fast))
    except RuntimeError as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


def own_system() -> str:
    """Return the system of this machine. Raises RuntimeError on any other."""
    codename = platform.freedesktop_os_release().get("VERSION_CODENAME", "")
    if codename not in SYSTEMS:
        raise RuntimeError(
            f"there is no package for this system ({codename}); give --system, one of {', '.join(SYSTEMS)}"
        )
    return codename


def build(output: Path, system: str, parts: Path | None = None, *, fast: bool = False) -> Path:
    """Build the package of a system; `parts`: the folder of a node's programs and images, if they are included."""
    output.mkdir(parents=True, exist_ok=True)
    final = output / f"tarmac_{__version__}_{system}_amd64.deb"
    python = SYSTEMS[system]
    with tempfile.TemporaryDirectory(prefix="tarmac-package-") as work:
        root = Path(work)
        say(f"libraries for Python {python}")
        _libraries(root / "opt/tarmac/lib" / f"cp{python.replace('.', '')}", python)
        if parts is not None:
            say("programs and images of nodes")
            _parts(root / "opt/tarmac/parts", parts)
        _files(root, system)
        pack(root, final, fast=fast or parts is None)
    return final


def depends(python: str) -> str:
    """Return the dependencies, with this Python and no other."""
    major, minor = map(int, python.split("."))
    exact = f"python3 (>= {python}), python3 (<< {major}.{minor + 1})"
    return ", ".join((exact, *DEPENDS.split(", ")[1:]))


def _libraries(folder: Path, python: str) -> None:
    """Install wheels from the lock file, each checked by its hash, and Tarmac itself."""
    with tempfile.TemporaryDirectory() as work:
        wanted = Path(work) / "requirements.txt"
        wanted.write_text(_locked(python))
        exact = ["--only-binary", ":all:", "--require-hashes", "--no-deps", "--link-mode", "copy"]
        target = ["--python-version", python, "--python-platform", "x86_64-manylinux_2_28"]
        _uv("install", "--target", str(folder), *target, *exact, "--requirement", str(wanted))
    for name in _LEFT_BEHIND:
        path = folder / name
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    for library in sorted(folder.rglob("*.so")):
        subprocess.run(["strip", "--strip-unneeded", str(library)], check=True)
    shutil.copytree(ROOT / "src/tarmac", folder / "tarmac", ignore=shutil.ignore_patterns("__pycache__", "*.pyc"))
    put(folder / "tarmac" / PACKAGED, f"{git('rev-parse', 'HEAD')}\n".encode())


@cache
def _locked(python: str) -> str:
    """Return the packages of the lock file that a machine needs, with the hashes of every wheel."""
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
    """Copy parts; links into the cache become files. Optional parts may be missing."""
    for name in (each for each in PARTS if (parts / each).exists()):
        shutil.copytree(parts / name, folder / name, ignore=partial(_left_out, name))
    for program in sorted((folder / "bin").iterdir()):
        if program.read_bytes()[:4] == b"\x7fELF":
            subprocess.run(["strip", "--strip-unneeded", str(program)], check=True)


def _left_out(part: str, _folder: str, names: list[str]) -> set[str]:
    return set(names) - _CNI_PLUGINS if part == "cni" else _NOT_NEEDED & set(names)


def _files(root: Path, system: str) -> None:
    packaging = ROOT / "packaging"
    put(root / "usr/bin/tarmac", (packaging / "tarmac").read_bytes(), 0o755)
    (root / "usr/bin/kubectl-tarmac").symlink_to("tarmac")  # a plugin of kubectl
    for unit in UNITS:
        put(root / "usr/lib/systemd/system" / unit, (packaging / unit).read_bytes())
    for name, text in pages(epoch()).items():
        put(root / "usr/share/man/man8" / name, text.encode())
    for shell in SHELLS:
        put(root / COMPLETIONS[shell], script(shell).encode())
    put(root / "usr/share/doc/tarmac/copyright", (ROOT / "LICENSE").read_bytes())
    python = SYSTEMS[system]
    put(root / "DEBIAN/control", CONTROL.format(depends=depends(python)).encode())
    for name in SCRIPTS:
        text = (packaging / name).read_text().replace("@PYTHON@", python).replace("@SYSTEM@", system)
        put(root / "DEBIAN" / name, text.encode(), 0o755)


if __name__ == "__main__":
    sys.exit(main())
