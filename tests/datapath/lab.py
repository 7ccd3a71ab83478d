"""Machines and pods made of network namespaces, and sockets inside them. All have one random prefix and are removed."""

from __future__ import annotations

import secrets
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypeVar

from tarmac.datapath.linux import namespaces

T = TypeVar("T")

PREFIX = "tarmac-test-datapath-"
WIRE_MTU = 1600


class Lab:
    """Namespaces on one wire: a bridge in a namespace of its own, with a link to every machine."""

    def __init__(self) -> None:
        self.folder = Path("/run") / f"{PREFIX}{secrets.token_hex(4)}"
        self.folder.mkdir()
        self._thread = ThreadPoolExecutor(1)
        self._machines: dict[int, Path] = {}
        self._wire = self.namespace("wire")
        self.command(self._wire, "ip link add wire mtu 1600 type bridge")
        self.command(self._wire, "ip link set wire up")

    def namespace(self, name: str) -> Path:
        """Create a network namespace."""
        path = self.folder / name
        self._thread.submit(namespaces.create, path).result()
        return path

    def machine(self, number: int) -> Path:
        """Return a machine on the wire, at 198.18.0.<number> and fd99::<number>."""
        if number not in self._machines:
            path = self._machines[number] = self.namespace(f"machine-{number}")
            self.command(path, "ip link set lo up")
            self.command(path, "sysctl -w net.ipv6.conf.default.addr_gen_mode=1")  # no automatic addresses
            self.command(path, f"ip link add eth0 mtu {WIRE_MTU} type veth peer name m{number} netns {self._wire}")
            self.command(path, f"ip address add 198.18.0.{number}/24 dev eth0")
            self.command(path, f"ip address add fd99::{number}/64 dev eth0 nodad")
            self.command(path, "ip link set eth0 up")
            self.settle(path, [f"fd99::{number}"])
            self.command(self._wire, f"ip link set m{number} mtu {WIRE_MTU} master wire up")
        return self._machines[number]

    def settle(self, namespace: Path, addresses: Iterable[str]) -> None:
        """Wait until the kernel routes new IPv6 addresses, which it does a little after it shows them."""
        for address in addresses:
            deadline = time.monotonic() + 10
            while f"local {address} " not in self.command(namespace, "ip -6 route show table local"):
                assert time.monotonic() < deadline, f"{address} never came"

    def carrier(self, machine: Path) -> None:
        """Wait until a machine's link is up. The kernel reports the peer's state up to a second late."""
        deadline = time.monotonic() + 10
        while "LOWER_UP" not in (shown := self.command(machine, "ip link show eth0")) or "state UP" not in shown:
            assert time.monotonic() < deadline, f"eth0 never came up: {shown}"

    def command(self, namespace: Path, command: str) -> str:
        """Return the output of a command that runs in a namespace."""
        done = subprocess.run(
            ["nsenter", f"--net={namespace}", *command.split()], capture_output=True, text=True, timeout=20
        )
        assert done.returncode == 0, f"{command}: {done.stderr}"
        return done.stdout

    def inside(self, namespace: Path, work: Callable[[], T]) -> T:
        """Return the result of a function that runs in a namespace."""

        def there() -> T:
            with namespaces.inside(namespace):
                return work()

        return self._thread.submit(there).result()

    def socket(self, namespace: Path, family: int, kind: int, protocol: int = 0) -> socket.socket:
        """Return a non-blocking socket in a namespace."""
        made = self.inside(namespace, lambda: socket.socket(family, kind, protocol))
        made.setblocking(False)
        return made

    def everything(self, namespace: Path) -> str:
        """Return the visible state of a namespace, for comparison."""
        commands = ("ip -d link", "ip address", "ip route show table all", "ip -6 route show table all", "ip rule")
        controls = "sysctl net.ipv4.ip_forward net.ipv6.conf.all.forwarding net.ipv6.conf.all.accept_ra"
        shown = "\n".join(self.command(namespace, each) for each in (*commands, "nft -s list ruleset", controls))
        return shown.replace(" tentative", "")  # a temporary state

    def close(self) -> None:
        """Remove all namespaces."""
        for path in sorted(self.folder.rglob("*"), reverse=True):
            if path.is_file():
                self._thread.submit(namespaces.remove, path).result()
        shutil.rmtree(self.folder)
        self._thread.shutdown()
