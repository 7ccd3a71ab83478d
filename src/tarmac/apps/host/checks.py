"""Finds all obstacles to a host becoming a node, by trial, and reports them together."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from tarmac import __version__
from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.cgroups.mounted import mounted
from tarmac.apps.host.hostlayout import Machine
from tarmac.apps.host.serverdiscovery import FoundServer
from tarmac.decide.versions import joins
from tarmac.runtimes.parts import PartMissing, find_parts

MIN_FREE_BYTES = 5 << 30
MAX_SKEW = 30.0
_TOOLS = {"nft": "nftables", "nsenter": "util-linux", "mkfs.ext4": "e2fsprogs", "unshare": "util-linux"}
_TRIALS = {
    "veth": f"{sys.executable} -m tarmac.apps.host.kerneltrial veth",
    "vxlan": f"{sys.executable} -m tarmac.apps.host.kerneltrial vxlan",
    "nftables": "nft add table inet trial",
    "overlayfs": 'mount -t tmpfs t "$1" && mkdir "$1/l" "$1/u" "$1/w" "$1/m" && '
    'mount -t overlay o -o "lowerdir=$1/l,upperdir=$1/u,workdir=$1/w" "$1/m"',
}
_HOSTS = Path("/etc/hosts")
_PORTS = {"node-port": (socket.SOCK_STREAM, 10250, "10250/tcp"), "vxlan-port": (socket.SOCK_DGRAM, 4789, "4789/udp")}


class Obstacle(NamedTuple):
    """The name of a check; its finding and the fix."""

    check: str
    text: str


def local_obstacles(machine: Machine, *, running: bool) -> Iterator[Obstacle]:
    """Yield obstacles of the host itself. `running`: Tarmac's own agent may already use the ports."""
    if os.geteuid() != 0:
        yield Obstacle("root", "this needs root: namespaces, mounts and cgroups; run it as root")
        return  # the other checks need root
    if missing := sorted({package for tool, package in _TOOLS.items() if shutil.which(tool) is None}):
        yield Obstacle("packages", f"these packages are missing: {', '.join(missing)}; apt-get install them")
    else:
        yield from _kernel()
    yield from _cgroups()
    yield from _parts()
    if not _HOSTS.exists():
        yield Obstacle("hosts", f"there is no {_HOSTS}, of which every pod gets a copy; make one: 127.0.0.1 localhost")
    free = shutil.disk_usage(existing(machine.data)).free
    if free < MIN_FREE_BYTES:
        yield Obstacle("disk", f"{free >> 20} MiB are free below {machine.data}; {MIN_FREE_BYTES >> 30} GiB are needed")
    if not running:
        yield from _ports(_left_tunnels(machine))


def server_obstacles(found: FoundServer) -> Iterator[Obstacle]:
    """Yield obstacles between the host and the server."""
    if abs(found.ahead) > MAX_SKEW:
        way = "ahead of" if found.ahead > 0 else "behind"
        far = f"{abs(found.ahead):.0f} s {way} the server's"
        yield Obstacle("clock", f"this machine's clock is {far}; set it (timedatectl set-ntp true)")
    if found.version and (why := joins(__version__, found.version)):
        yield Obstacle("version", why)


def _kernel() -> Iterator[Obstacle]:
    """Try kernel features, each in new namespaces that are removed with everything in them."""
    with tempfile.TemporaryDirectory(prefix="tarmac-trial-") as folder:
        for name, command in _TRIALS.items():
            trial = ["unshare", "--net", "--mount", "sh", "-c", command, "sh", folder]
            done = subprocess.run(trial, check=False, capture_output=True, text=True, timeout=20)
            if done.returncode != 0:
                reason = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
                yield Obstacle(
                    name, f"the kernel offers no {name} here ({reason}); load the module or use another kernel"
                )


def _cgroups() -> Iterator[Obstacle]:
    try:
        mounted()
    except (CgroupError, OSError) as error:
        yield Obstacle("cgroups", f"{error}; cpu, memory and pids must be mounted, v1 or v2")


def _parts() -> Iterator[Obstacle]:
    try:
        find_parts()
    except PartMissing as missing:
        yield Obstacle("parts", str(missing))


def _left_tunnels(machine: Machine) -> bool:
    """Return True if an agent has run since boot: it leaves the tunnels of its running pods, and they use the port."""
    return (machine.run / "agent" / "netns").is_dir()


def _ports(left_tunnels: bool) -> Iterator[Obstacle]:
    for check, (kind, port, shown) in _PORTS.items():
        if check == "vxlan-port" and left_tunnels:
            continue
        with socket.socket(socket.AF_INET, kind) as probe:
            if kind == socket.SOCK_STREAM:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("0.0.0.0", port))
            except OSError as error:
                remedy = "stop the process that listens there, perhaps a kubelet"
                yield Obstacle(check, f"{shown} cannot be bound ({error.strerror}); {remedy}")


def existing(path: Path) -> Path:
    """Return the path, or its closest parent that exists."""
    return next(each for each in (path, *path.parents) if each.exists())
