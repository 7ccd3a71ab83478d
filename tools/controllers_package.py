"""Builds `tarmac-kubernetes-controllers`, the Debian package with stock kube-controller-manager and its service.

The program is large, and Workloads need none of it. The unit runs `tarmac kubernetes-controllers` of the package
`tarmac`, which becomes the program, so systemd supervises the program itself.
"""

from __future__ import annotations

import subprocess
import tempfile
from pathlib import Path

from tarmac import __version__
from tarmac.apps.stockcontrollers.supervisor import PROGRAM
from tools.cache import ROOT, say
from tools.packing import pack, put

NAME = "tarmac-kubernetes-controllers"
UNIT = f"{NAME}.service"
SCRIPTS = ("postinst", "prerm")
FOLDER = ROOT / "packaging" / "kubernetes-controllers"
CONTROL = f"""\
Package: {NAME}
Version: {__version__}
Architecture: amd64
Maintainer: The Tarmac authors <tarmac@localhost>
Section: admin
Priority: optional
Depends: tarmac (>= {__version__})
Description: Deployments, Jobs and their like on Tarmac
 Stock kube-controller-manager and a service that runs it for a Tarmac server,
 with the controllers that Tarmac does not have itself.
"""


def build(output: Path, parts: Path, *, fast: bool = False) -> Path:
    """Return the package; `parts` is the folder of a node's parts. Raises RuntimeError if the program is missing."""
    program = parts / "bin" / PROGRAM
    if not program.is_file():
        raise RuntimeError(f"{NAME}: {program} is missing; run make kubernetes-controllers")
    say("stock controllers")
    output.mkdir(parents=True, exist_ok=True)
    final = output / f"{NAME}_{__version__}_amd64.deb"
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-") as work:
        root = Path(work)
        installed = root / "opt/tarmac/parts/bin" / PROGRAM
        put(installed, program.read_bytes(), 0o755)
        subprocess.run(["strip", "--strip-unneeded", str(installed)], check=True)
        put(root / "usr/lib/systemd/system" / UNIT, (FOLDER / UNIT).read_bytes())
        put(root / "usr/share/doc" / NAME / "copyright", (ROOT / "LICENSE").read_bytes())
        put(root / "DEBIAN/control", CONTROL.encode())
        for name in SCRIPTS:
            put(root / "DEBIAN" / name, (FOLDER / name).read_bytes(), 0o755)
        pack(root, final, fast=fast)
    return final
