"""Builds `tarmac-machines`, the second Debian package: everything that only nodes with virtual machines need.

QEMU, the firmware for UEFI and the unpackers of images are Debian's, by dependency. The package itself has the kernel
and the initial filesystem with which a node probes QEMU, and the small operating system that boots with them. None of
these files was ever in the package `tarmac`, so it needs neither Breaks nor Replaces.
"""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from tarmac import __version__
from tools.cache import ROOT, say
from tools.packing import pack, put

NAME = "tarmac-machines"
DEPENDS = "qemu-system-x86, qemu-utils, ovmf, xz-utils, zstd"
SCRIPTS = ("postinst", "prerm")
IMAGES = ("vmlinuz", "initrd", "tiny.raw", "tiny.json")
FOLDER = "opt/tarmac/parts/machine-images"
CONTROL = f"""\
Package: {NAME}
Version: {__version__}
Architecture: amd64
Maintainer: The Tarmac authors <tarmac@localhost>
Section: admin
Priority: optional
Depends: tarmac (>= {__version__}), {DEPENDS}
Description: virtual machines on nodes of Tarmac
 QEMU by dependency, the kernel with which a node probes it, and a small
 operating system for trials (tarmac/tiny).
"""


def build(output: Path, parts: Path) -> Path:
    """Return the package; `parts` is the folder of a node's parts. Raises RuntimeError if it has no machine images."""
    images = parts / "machine-images"
    if missing := [name for name in IMAGES if not (images / name).is_file()]:
        raise RuntimeError(f"{NAME}: {images} has no {', '.join(missing)}; run make node-parts as root")
    say("images of virtual machines")
    output.mkdir(parents=True, exist_ok=True)
    final = output / f"{NAME}_{__version__}_amd64.deb"
    with tempfile.TemporaryDirectory(prefix=f"{NAME}-") as work:
        root = Path(work)
        (root / FOLDER).mkdir(parents=True)
        for name in IMAGES:
            shutil.copyfile(images / name, root / FOLDER / name)
        put(root / "usr/share/doc" / NAME / "copyright", (ROOT / "LICENSE").read_bytes())
        put(root / "DEBIAN/control", CONTROL.encode())
        for name in SCRIPTS:
            put(root / "DEBIAN" / name, (ROOT / "packaging/machines" / name).read_bytes(), 0o755)
        pack(root, final)
    return final
