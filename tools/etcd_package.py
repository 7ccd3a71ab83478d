"""Builds `tarmac-etcd`, the Debian package with etcd and its service, for `tarmac init --with-etcd`.

The program is built from pinned source (`tools.gobuild`). The unit runs `tarmac etcd run` of the package `tarmac`,
which becomes the program, so systemd supervises the program itself.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tarmac import __version__
from tools.cache import ROOT, say
from tools.packing import pack, put

NAME = "tarmac-etcd"
UNIT = f"{NAME}.service"
SCRIPTS = ("postinst", "prerm")
FOLDER = ROOT / "packaging" / "etcd"
CONTROL = f"""\
Package: {NAME}
Version: {__version__}
Architecture: amd64
Maintainer: The Tarmac authors <tarmac@localhost>
Section: admin
Priority: optional
Depends: tarmac (>= {__version__})
Description: etcd for several Tarmac servers
 The etcd that Tarmac is tested with, and a service that runs a member of it
 beside a server. See tarmac init --with-etcd and tarmac join --server.
"""


def build(output: Path, program: Path, *, fast: bool = False) -> Path:
    """Return the package; `program` is etcd."""
    say("etcd")
    output.mkdir(parents=True, exist_ok=True)
    final = output / f"{NAME}_{__version__}_amd64.deb"
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-") as work:
        root = Path(work)
        put(root / "opt/tarmac/parts/bin/etcd", program.read_bytes(), 0o755)
        put(root / "usr/lib/systemd/system" / UNIT, (FOLDER / UNIT).read_bytes())
        put(root / "usr/share/doc" / NAME / "copyright", (ROOT / "LICENSE").read_bytes())
        put(root / "DEBIAN/control", CONTROL.encode())
        for name in SCRIPTS:
            put(root / "DEBIAN" / name, (FOLDER / name).read_bytes(), 0o755)
        pack(root, final, fast=fast)
    return final
