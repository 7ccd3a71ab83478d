"""Machines at sites: each on a network of its own behind a router, with a fresh Debian 12 or 13 and the package alone.

A site's machine sees none of the host's files: its root is a Debian with its own changes laid over it. An etcd member
and the user's kubectl, which are separate on real machines, run in its network from outside. A machine whose plug was
pulled boots again with its disk, and with a fresh kernel state.
"""

from __future__ import annotations

import subprocess
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tarmac.datapath.linux import namespaces
from tests.datapath.lab import Lab
from tests.machines.boxes import Box, until
from tests.store.conftest import ETCDS, etcd_binary
from tests.support.kubectl import kubectl_path

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_BOOT = """
set -e
mount --make-rslave /
mkdir -p "$1/disk" "$1/disk.work" "$1/data" "$1/root"
mount -t overlay overlay -o "lowerdir=$3,upperdir=$1/disk,workdir=$1/disk.work" "$1/root"
cd "$1/root"
mkdir -p var/lib/tarmac
mount --bind "$1/data" var/lib/tarmac
mount --rbind /dev dev
mount --rbind /sys sys
mount -t proc proc proc
mount -t tmpfs tmpfs run
mount -t tmpfs tmpfs tmp
hostname "$2"
mkdir -p mnt
pivot_root . mnt
umount -l /mnt
exec sleep infinity
"""


class SiteBox(Box):
    """A machine with a Debian of its own, alone on its network."""

    program = ("/usr/bin/tarmac",)

    def __init__(self, folder: Path, lab: Lab, number: int, name: str, root: Path) -> None:
        self._lab, self._number, self._root = lab, number, root
        self._etcd: subprocess.Popen[bytes] | None = None
        super().__init__(folder, lab, number, name)

    def wired(self, lab: Lab, number: int) -> tuple[str, Path]:
        """Set up the address 198.18.NUMBER.1, behind a router."""
        return f"198.18.{number}.1", site(lab, number)

    def boot_command(self) -> list[str]:
        """Use a root of its own, without a way out."""
        return ["sh", "-c", _BOOT, "sh", str(self._folder), self.name, str(self._root)]

    def environment(self) -> dict[str, str]:
        """Return the environment of a login."""
        return {"PATH": _PATH, "HOME": "/root", "LANG": "C.UTF-8", "PYTHONUNBUFFERED": "1"}

    def kubectl(self, *words: str, stdin: str = "") -> str:
        """Run kubectl with the administrator's kubeconfig of this machine, in its network."""
        command = ["nsenter", f"--net={self._network}", kubectl_path()]
        command.append(f"--kubeconfig={self.path('/var/lib/tarmac/kubeconfig')}")
        done = subprocess.run([*command, *words], input=stdin, capture_output=True, text=True, timeout=30)
        return done.stdout if done.returncode == 0 else done.stderr

    def install(self, package: Path) -> str:
        """Install with dpkg, without a network; return the output. Missing dependencies make it fail."""
        copy = self.path("/var/cache/tarmac.deb")
        copy.write_bytes(package.read_bytes())
        done = subprocess.run(
            self.command("dpkg", "--install", "/var/cache/tarmac.deb"), capture_output=True, text=True, timeout=300,
            env={**self.environment(), "DEBIAN_FRONTEND": "noninteractive"},
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        copy.unlink()
        return done.stdout

    def start_etcd(self, members: dict[str, str]) -> None:
        """Start a member of the store, beside Tarmac and with its old data; `members` are names and addresses."""
        peers, clients = f"http://{self.address}:2380", f"http://{self.address}:2379"
        flags = [f"--name={self.name}", f"--data-dir={self._folder / 'etcd'}", f"--listen-peer-urls={peers}"]
        flags += [f"--initial-advertise-peer-urls={peers}", f"--listen-client-urls={clients}"]
        flags += [f"--advertise-client-urls={clients}", "--heartbeat-interval=100", "--election-timeout=1000"]
        flags.append("--initial-cluster=" + ",".join(f"{name}=http://{at}:2380" for name, at in members.items()))
        command = ["nsenter", f"--target={self.pid}", "--net", "--pid", str(etcd_binary(ETCDS[-1]))]
        with (self._folder / "etcd.log").open("ab") as log:
            self._etcd = subprocess.Popen([*command, *flags], stdout=log, stderr=log)

    def pull_the_plug(self) -> None:
        """Kill all processes at once with kill -9, the etcd member too: it is a process of the machine."""
        super().pull_the_plug()
        if self._etcd is not None:
            self._etcd.wait(20)

    def boot_again(self) -> None:
        """Boot with its disk, and with a fresh kernel state."""
        self.remove_cgroups()
        self._network = site(self._lab, self._number)
        self._boot()


def site(lab: Lab, number: int) -> Path:
    """A network with one machine on it, at 198.18.NUMBER.1; an old one is replaced."""
    path, router = lab.folder / f"site-{number}", lab.folder / "router"
    if path.exists():
        namespaces.remove(path)
    lab.namespace(path.name)
    lab.command(path, "ip link set lo up")
    # Until the kernel has removed the old one, the router still has its name.
    until(lambda: f"s{number}" not in lab.command(router, "ip -o link"), 20)
    lab.command(path, f"ip link add eth0 mtu 1600 type veth peer name s{number} mtu 1600 netns {router}")
    lab.command(path, f"ip address add 198.18.{number}.1/24 dev eth0")
    lab.command(path, "ip link set eth0 up")
    lab.command(path, f"ip route add default via 198.18.{number}.254")
    lab.command(router, f"ip address add 198.18.{number}.254/24 dev s{number}")
    lab.command(router, f"ip link set s{number} up")
    return path


@contextmanager
def sites(folder: Path, **roots: Path) -> Generator[list[SiteBox]]:
    """Machines by name, each with its root, on networks of their own; always removed afterwards."""
    lab = Lab()
    made: list[SiteBox] = []
    try:
        router = lab.namespace("router")
        lab.command(router, "sysctl -qw net.ipv4.ip_forward=1")
        for number, (name, root) in enumerate(roots.items(), 1):
            made.append(SiteBox(folder, lab, number, name, root))
        yield made
    finally:
        for box in made:
            box.close()
        lab.close()
