"""Gets all third-party parts of a real node: `python -m tools.node_parts` prints their paths, as JSON.

Servers come out of Debian packages that are unpacked and not installed; gVisor is built from source; images are written
from those. Links to all of them are in one folder of the cache, `node`, in which `tarmac` finds programs that the
machine's PATH does not have (`tarmac.runtimes.parts`). Without gVisor a node still works, for pods that share its
kernel; the folder then contains the reason. Likewise without the small operating system of virtual machines.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from tools import gvisor, machine_images, node_images
from tools.cache import cache_root, say
from tools.debs import NEWEST, Deb, fetch

_CONTAINERD = ("containerd", "containerd", "trixie")
CONTAINERD = (
    Deb(*_CONTAINERD, "1.7.24~ds1-6+deb13u1", "usr/bin/containerd"),
    Deb(*_CONTAINERD, NEWEST, "usr/bin/containerd", ": the pinned version is gone from the mirror"),
)
_OTHERS = ("docker-registry", "containernetworking-plugins", "catatonit", "busybox", "libc6")
# runc of later releases needs a newer C library than Debian 12 has.
RUNC = (
    Deb("runc", "runc", "bookworm", "1.1.5+ds1-1+deb12u1", "usr/sbin/runc", also=_OTHERS),
    Deb("runc", "runc", "bookworm", NEWEST, "usr/sbin/runc", ": the pinned version is gone from the mirror", _OTHERS),
)
# Debian 12's own versions, for tests of an older containerd.
OLD_CONTAINERD = (
    Deb("containerd", "containerd", "bookworm", "1.6.20~ds1-1+deb12u3", "usr/bin/containerd"),
    Deb("containerd", "containerd", "bookworm", NEWEST, "usr/bin/containerd", ": the pinned version is gone"),
)
# Encrypts tunnels between cities where the kernel has no driver for it; `wg` configures both.
_WIREGUARD = ("wireguard-go", "wireguard-go", "bookworm")
WIREGUARD = (
    Deb(*_WIREGUARD, "0.0.20220316-1+b4", "usr/bin/wireguard-go", also=("wireguard-tools",)),
    Deb(
        *_WIREGUARD,
        NEWEST,
        "usr/bin/wireguard-go",
        ": the pinned version is gone from the mirror",
        ("wireguard-tools",),
    ),
)
# Shares the connections of external services between gateways. Includes its libraries, except for those that every
# Debian has.
_CONNTRACKD = ("conntrackd", "conntrackd", "bookworm")
_NETFILTER = (
    "libmnl0",
    "libnetfilter-conntrack3",
    "libnetfilter-cthelper0",
    "libnetfilter-cttimeout1",
    "libnetfilter-queue1",
    "libnfnetlink0",
)
CONNTRACKD = (
    Deb(*_CONNTRACKD, "1:1.4.7-1+b2", "usr/sbin/conntrackd", also=_NETFILTER),
    Deb(*_CONNTRACKD, NEWEST, "usr/sbin/conntrackd", ": the pinned version is gone from the mirror", _NETFILTER),
)
# Announces public addresses to routers by BGP.
_BIRD = ("bird", "bird2", "bookworm")
_SSH = (
    "libcom-err2",
    "libgcrypt20",
    "libgpg-error0",
    "libgssapi-krb5-2",
    "libk5crypto3",
    "libkeyutils1",
    "libkrb5-3",
    "libkrb5support0",
    "libssh-gcrypt-4",
)
BIRD = (
    Deb(*_BIRD, "2.0.12-7", "usr/sbin/bird", also=_SSH),
    Deb(*_BIRD, NEWEST, "usr/sbin/bird", ": the pinned version is gone from the mirror", _SSH),
)
_WITH_ITS_LIBRARIES = """\
#!/bin/sh
# The package is unpacked and not installed, so its libraries are beside it.
own=$(dirname "$(readlink -f "$0")")/../{name}
libraries=
for each in "$own"/lib/*-linux-gnu* "$own"/usr/lib/*-linux-gnu*; do libraries=${{libraries:+$libraries:}}$each; done
LD_LIBRARY_PATH=$libraries exec "$own/usr/sbin/{name}" "$@"
"""
NO_GVISOR = "no-gvisor"  # the file with the reason why there is none


def ensure() -> Path:
    """Return the folder with `bin/*`, `cni/*`, `images/*.tar`, `machine-images/*`. Raises RuntimeError."""
    containerd = fetch(*CONTAINERD).parent
    runc = fetch(*RUNC)
    packages = runc.parent.parent.parent
    folder = cache_root() / "node"
    programs = {name: containerd / name for name in ("containerd", "ctr", "containerd-shim-runc-v2")}
    programs |= {"runc": runc, "docker-registry": packages / "usr" / "bin" / "docker-registry"}
    programs |= _gvisor(folder)
    for name, target in programs.items():
        link(folder / "bin" / name, target)
    _wireguard(folder)
    _conntrackd(folder)
    _bird(folder)
    link(folder / "cni", packages / "usr" / "lib" / "cni")
    link(folder / "images", node_images.build(packages))
    _machines()
    _old_containerd(folder)
    return folder


def _wireguard(folder: Path) -> None:
    """Get the programs for encryption. Without them a node still works, and reports that it cannot encrypt."""
    try:
        program = fetch(*WIREGUARD)
    except RuntimeError as error:
        say(f"NO WireGuard: {error}. Tunnels between cities are closed.")
        return
    for name in ("wireguard-go", "wg"):
        link(folder / "bin" / name, program.with_name(name))


def _conntrackd(folder: Path) -> None:
    """Get conntrackd. Without it a node still works, and reports that it does not share connections."""
    try:
        program = fetch(*CONNTRACKD)
    except RuntimeError as error:
        say(f"NO conntrackd: {error}. Some connections of external services end with their gateway.")
        return
    _with_libraries(folder, program)


def _bird(folder: Path) -> None:
    """Without it a node still works, and says that it has no BGP speaker."""
    try:
        program = fetch(*BIRD)
    except RuntimeError as error:
        say(f"NO bird: {error}. Addresses of pools with `announce: bgp` are not announced.")
        return
    _with_libraries(folder, program)


def _with_libraries(folder: Path, program: Path) -> None:
    """Put a program into `bin` that finds its libraries, and its package into a folder of the program's name."""
    # By a link: the package's own folder may have a colon in its name, which would end that of a folder of libraries.
    link(folder / program.name, program.parent.parent.parent)
    place = folder / "bin" / program.name
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    fresh.write_text(_WITH_ITS_LIBRARIES.format(name=program.name))
    fresh.chmod(0o755)
    fresh.replace(place)


def _machines() -> None:
    """Get machine images. Without them a node still works, and reports that it has no virtual machines."""
    try:
        machine_images.install(machine_images.ensure_tiny())
    except RuntimeError as error:
        say(f"NO system for virtual machines: {error}. The node will run containers only.")


def _old_containerd(folder: Path) -> None:
    """Link it in `debian12`; tests that need it skip with the reason when it is missing."""
    try:
        link(folder / "debian12", fetch(*OLD_CONTAINERD).parent)
    except RuntimeError as error:
        say(f"NO containerd of Debian 12: {error}. Tests with it cannot run.")


def ensure_registry() -> Path:
    """Get the registry alone, where `tarmac` finds it. Raises RuntimeError when it is unavailable."""
    place = cache_root() / "node" / "bin" / "docker-registry"
    link(place, fetch(*RUNC).parent.parent / "bin" / "docker-registry")
    return place


def _gvisor(folder: Path) -> dict[str, Path]:
    remark = folder / NO_GVISOR
    folder.mkdir(parents=True, exist_ok=True)
    try:
        built = gvisor.build()
    except (subprocess.CalledProcessError, RuntimeError, OSError) as error:
        say(f"NO gVisor: {error}. The node will only run pods that share its kernel.")
        remark.write_text(f"it could not be built: {error}\n")
        return {}
    remark.unlink(missing_ok=True)
    return {name: built / name for name in gvisor.PROGRAMS}


def link(place: Path, target: Path) -> None:
    """Point a name at a part, atomically for readers."""
    place.parent.mkdir(parents=True, exist_ok=True)
    fresh = place.with_name(f".{place.name}.{os.getpid()}")
    fresh.symlink_to(target)
    fresh.replace(place)


def main() -> int:
    """Print the paths of the parts."""
    try:
        folder = ensure()
    except RuntimeError as failure:
        print(failure, file=sys.stderr)
        return 1
    parts = {path.name: str(path) for path in sorted((folder / "bin").iterdir())}
    images = [str(path) for path in sorted((folder / "images").iterdir())]
    print(json.dumps({"folder": str(folder), **parts, "cni": str(folder / "cni"), "images": images}, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
