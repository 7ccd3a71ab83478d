"""The container image of the controllers, made without a container engine: `python -m tools.image`, as root.

Its layers are a fresh Debian 12 with the dependencies of the package, and the package without the programs of nodes.
The OCI archive is in `dist`; `ctr`, podman and skopeo read it. Two builds of a commit are the same bytes.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tarmac import __version__
from tools import debian_roots, package
from tools.cache import ROOT, cached, digest, say
from tools.oci import Entry, Image, PackedLayer, pack_layer, write_image

NAME = f"registry.local/tarmac/controllers:{__version__}"
USER = "65532"
_RELEASE = "12"
_FOLDERS = ("dev", "proc", "sys", "run", "tmp")
# Contents that a container gets from its runtime, logs and caches, and files that name the machine of the build.
_LEFT_OUT = (
    *_FOLDERS, "boot", "var/cache", "var/lib/apt/lists", "var/log", "etc/apt/sources.list", "etc/hostname",
    "etc/machine-id", "etc/resolv.conf",
)  # fmt: skip
_PLAIN_MODE = 0o1777  # no setuid and no setgid programs
# The user has no entry in /etc/passwd, so Python finds a home directory only here.
ENVIRONMENT = {"PATH": "/usr/bin:/bin", "HOME": "/", "LANG": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1"}


def build(output: Path, deb: Path | None = None) -> Path:
    """Return the archive. Raises RuntimeError where Debian's packages cannot be unpacked."""
    base = _base()
    output.mkdir(parents=True, exist_ok=True)
    final = output / f"tarmac-image_{__version__}_amd64.tar"
    with tempfile.TemporaryDirectory(prefix="tarmac-image-") as work:
        made = deb or package.build(Path(work), debian_roots.RELEASES[_RELEASE])
        unpacked = Path(work) / "root"
        subprocess.run(["dpkg-deb", "--extract", str(made), str(unpacked)], check=True)
        say("layers of the image")
        layers = (base, [*_entries(unpacked)])
        write_image(Image(NAME, layers, ("/usr/bin/tarmac",), ("controllers",), ENVIRONMENT, user=USER), final)
    return final


def _base() -> PackedLayer:
    """Return the layer of the system, packed once: that takes longer than the rest."""
    root = debian_roots.ensure(_RELEASE)
    key = digest(each.encode() for each in (root.parent.name, *_LEFT_OUT, "no bytecode", oct(_PLAIN_MODE)))

    def pack(folder: Path) -> None:
        say("packing the system of the image, once")
        layer = pack_layer([*_entries(root), *(Entry(each) for each in _FOLDERS)])
        (folder / "layer").write_bytes(layer.blob)

    return PackedLayer((cached("image-base", _RELEASE, key, pack) / "layer").read_bytes())


def _entries(root: Path) -> Iterator[Entry]:
    """Yield the files of a folder in a fixed order, without devices and bytecode, which depends on times of files."""
    for path in sorted(root.rglob("*")):
        name = str(path.relative_to(root))
        if "__pycache__" in path.parts or any(name == each or name.startswith(f"{each}/") for each in _LEFT_OUT):
            continue
        found = path.lstat()
        if stat.S_ISLNK(found.st_mode):
            yield Entry(name, symbolic_link=os.readlink(path))
        elif stat.S_ISDIR(found.st_mode):
            yield Entry(name, mode=found.st_mode & _PLAIN_MODE)
        elif stat.S_ISREG(found.st_mode):
            yield Entry(name, path.read_bytes(), found.st_mode & _PLAIN_MODE)


def main() -> int:
    """Build the image and print its path."""
    try:
        print(build(ROOT / "dist"))
    except RuntimeError as failure:
        print(failure, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
