"""Makes the images that a node has from the start, offline, out of Debian packages and files of this project.

| image | what it is |
|---|---|
| `registry.local/tarmac/pause:1` | the first process of a sandbox: holds its namespaces, reaps orphans, ends on TERM |
| `registry.local/tarmac/busybox:1` | a shell and the usual tools, `tar` for `kubectl cp` among them |
| `registry.local/tarmac/web:1` | a web server on port 8080 that says who answered |

busybox is Debian's dynamic one with its C library beside it: the static one crashes when it looks up a name.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

from tools.cache import ROOT, cached, digest, say
from tools.oci import Entry, Image, write_image

_WEB = ROOT / "examples" / "images" / "web"
_FOLDERS = ("bin", "dev", "etc", "home", "lib", "proc", "root", "run", "sys", "usr", "usr/bin", "usr/sbin", "var")
_LIBRARIES = ("libc.so.6", "libm.so.6", "libresolv.so.2", "libnss_dns.so.2", "libnss_files.so.2")
_ETC = {
    "passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n",
    "group": "root:x:0:\nnogroup:x:65534:\n",
    "nsswitch.conf": "hosts: files dns\n",
}
_PATH = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}


def build(packages: Path) -> Path:
    """A folder with a tar per image, made of the unpacked Debian packages busybox, libc6 and catatonit."""
    programs = [packages / "bin" / "busybox", packages / "usr" / "bin" / "catatonit"]
    sources = [*programs, Path(__file__), ROOT / "tools" / "oci.py", *_files(_WEB)]

    def write(folder: Path) -> None:
        say("writing the node's images")
        for image in images(packages):
            write_image(image, folder / f"{image.name.rpartition('/')[2].replace(':', '-')}.tar")

    return cached("node-images", "1", digest(path.read_bytes() for path in sources), write)


def images(packages: Path) -> list[Image]:
    """What a node has from the start."""
    pause = [Entry("pause", (packages / "usr" / "bin" / "catatonit").read_bytes())]
    shell = list(busybox(packages))
    web = [Entry("www"), *(_file(path, str(path.relative_to(_WEB))) for path in _files(_WEB))]
    serve = ("httpd", "-f", "-p", "8080", "-h", "/www")
    return [
        Image("registry.local/tarmac/pause:1", [pause], entrypoint=("/pause", "-P"), user="65534:65534"),
        Image("registry.local/tarmac/busybox:1", [shell], command=("sh",), environment=_PATH),
        Image("registry.local/tarmac/web:1", [shell, web], command=serve, environment=_PATH, ports=(8080,)),
    ]


def busybox(packages: Path) -> Iterator[Entry]:
    """A shell and the usual tools, with the C library that they need."""
    yield from (Entry(name) for name in _FOLDERS)
    yield Entry("tmp", mode=0o1777)
    yield from (Entry(f"etc/{name}", text.encode(), 0o644) for name, text in _ETC.items())
    yield from _libraries(packages)
    yield _file(packages / "bin" / "busybox", "bin/busybox")
    listing = subprocess.run([packages / "bin" / "busybox", "--list"], capture_output=True, text=True, check=True)
    applets = sorted(set(listing.stdout.split()) - {"busybox"})
    yield from (Entry(f"bin/{applet}", hard_link="bin/busybox") for applet in applets)


def _libraries(packages: Path) -> Iterator[Entry]:
    """The loader where programs ask for it, and the libraries where the loader looks."""
    [folder] = (packages / "lib").glob("*-linux-gnu")
    yield Entry(str(folder.relative_to(packages)))
    yield from (_file(folder / name, f"lib/{folder.name}/{name}") for name in _LIBRARIES)
    for loader in [*packages.glob("lib64/ld-linux*"), *packages.glob("lib/ld-linux*")]:
        place = loader.relative_to(packages)
        if place.parts[0] != "lib":
            yield Entry(place.parts[0])
        target = next(folder.glob("ld-linux*"))
        yield _file(target, f"lib/{folder.name}/{target.name}")
        yield Entry(str(place), symbolic_link=f"/lib/{folder.name}/{target.name}")


def _files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def _file(source: Path, place: str) -> Entry:
    executable = source.stat().st_mode & 0o100
    return Entry(place, source.read_bytes(), 0o755 if executable else 0o644)
