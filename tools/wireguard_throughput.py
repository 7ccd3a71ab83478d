"""Throughput of one TCP connection through WireGuard, by the kernel's driver and by `wireguard-go`.

`python3 tools/wireguard_throughput.py FOLDER`, as root, with `src` and the packages of `tools/cgroups_v2.sh prepare` on
PYTHONPATH and FOLDER/wg and FOLDER/wireguard-go. Two network namespaces of this machine, one connection between
processes in them, three runs of 4 s. It needs neither the internet nor `ip`; a driver that the machine lacks is named.
"""

from __future__ import annotations

import base64
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from pathlib import Path

from tarmac.datapath.linux import links, namespaces, routing
from tarmac.datapath.linux.netlink import Netlink

_SECONDS, _RUNS, _CHUNK, _START_TIMEOUT = 4.0, 3, 1 << 20, 10.0
_PORT, _LISTEN, _MTU, _INNER_MTU = 4808, 51820, 1500, 1420
_OUTER, _INNER = ("192.0.2.1", "192.0.2.2"), ("198.51.100.1", "198.51.100.2")
_SOCKETS = Path("/var/run/wireguard")


class WireGuard:
    """The programs, and the private keys of both ends."""

    def __init__(self, folder: Path) -> None:
        self.wg, self.program = folder / "wg", folder / "wireguard-go"
        self._private = [base64.b64encode(bytes((number,)) * 32).decode() for number in (1, 2)]

    def configuration(self, end: int) -> str:
        """Return the configuration of one end."""
        public = self._run("pubkey", stdin=self._private[1 - end]).strip()
        return (
            f"[Interface]\nPrivateKey = {self._private[end]}\nListenPort = {_LISTEN}\n"
            f"[Peer]\nPublicKey = {public}\nAllowedIPs = {_INNER[1 - end]}/32\nEndpoint = {_OUTER[1 - end]}:{_LISTEN}\n"
        )

    def configure(self, name: str, end: int) -> None:
        """Configure a link of this thread's namespace."""
        self._run("setconf", name, "/dev/stdin", stdin=self.configuration(end))

    def _run(self, *words: str, stdin: str) -> str:
        done = subprocess.run([str(self.wg), *words], input=stdin, capture_output=True, text=True, check=False)
        if done.returncode:
            raise OSError(f"wg {words[0]}: {done.stderr.strip()}")
        return done.stdout


@contextmanager
def pair(folder: Path) -> Generator[list[Path]]:
    """Two namespaces, connected by a pair of links with the outer addresses."""
    ends = [folder / "one", folder / "two"]
    try:
        for each in ends:
            namespaces.create(each)
        with namespaces.inside(ends[0]), ends[1].open() as other:
            macs = ("02:00:00:00:00:01", "02:00:00:00:00:02")
            Netlink().request([links.veth("outer", macs[0], _MTU, "outer", macs[1], other.fileno())])
        for end, each in enumerate(ends):
            with namespaces.inside(each):
                _bring_up("outer", _OUTER[end], 24)
        yield ends
    finally:
        for each in ends:
            namespaces.remove(each)


def _bring_up(name: str, address: str, length: int, mtu: int = 0) -> None:
    netlink = Netlink()
    try:
        link = links.link(netlink, name)
        assert link is not None, name
        netlink.request([links.setting(link.index, mtu=mtu), routing.address(link.index, address, length)])
        links.settle(netlink, name)
    finally:
        netlink.close()


def kernel(wireguard: WireGuard, _: ExitStack, end: int) -> None:
    """Add the tunnel with the kernel's driver to this thread's namespace. Raises OSError without one."""
    netlink = Netlink()
    netlink.request([links.wireguard(f"wg{end}")])
    netlink.close()
    wireguard.configure(f"wg{end}", end)
    _bring_up(f"wg{end}", _INNER[end], 24, _INNER_MTU)


def userspace(wireguard: WireGuard, stack: ExitStack, end: int) -> None:
    """Add the tunnel with `wireguard-go`. Raises OSError where it cannot run."""
    if not Path("/dev/net/tun").exists():
        raise OSError("no /dev/net/tun")
    name = f"tun{end}"
    words = [str(wireguard.program), "-f", name]
    process = subprocess.Popen(
        words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env={**os.environ, "LOG_LEVEL": "silent"}
    )
    stack.callback(process.wait)
    stack.callback(process.kill)
    deadline = time.monotonic() + _START_TIMEOUT
    while not _listens(_SOCKETS / f"{name}.sock"):
        if process.poll() is not None or time.monotonic() > deadline:
            raise OSError("wireguard-go does not start")
        time.sleep(0.05)
    wireguard.configure(name, end)
    _bring_up(name, _INNER[end], 24, _INNER_MTU)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        return asking.connect_ex(str(path)) == 0


def throughput(ends: list[Path], address: str) -> float:
    """Return the Gbit/s of one connection from the first namespace to the second."""
    with namespaces.inside(ends[1]), socket.create_server((address, _PORT)) as server:
        server.settimeout(_START_TIMEOUT)
        sender = os.fork()
        if not sender:
            _send(ends[0], address)
        try:
            connection, _ = server.accept()
            with connection:
                return _received(connection) * 8 / 1e9
        finally:
            with suppress(ProcessLookupError):
                os.kill(sender, signal.SIGKILL)
            os.waitpid(sender, 0)


def _send(end: Path, address: str) -> None:
    """Send until killed; never returns, since this is a child with a copy of its parent."""
    try:
        namespaces.enter(end)
        with socket.create_connection((address, _PORT), _START_TIMEOUT) as connection:
            data = bytes(_CHUNK)
            while True:
                connection.sendall(data)
    finally:
        os._exit(1)


def _received(connection: socket.socket) -> float:
    """Return the bytes received in a second, the first one left out."""
    buffer, total, ignored_until = bytearray(_CHUNK), 0, time.monotonic() + 1
    while time.monotonic() < ignored_until:
        connection.recv_into(buffer)
    began = time.monotonic()
    while time.monotonic() - began < _SECONDS:
        total += connection.recv_into(buffer)
    return total / (time.monotonic() - began)


def measured(what: str, ends: list[Path], address: str) -> str:
    """Return one row of the table."""
    found = sorted(throughput(ends, address) for _ in range(_RUNS))
    return f"| {what} | {found[0]:.2f}–{found[-1]:.2f} |"


def main() -> int:
    """Print the table."""
    wireguard = WireGuard(Path(sys.argv[1]))
    drivers: tuple[tuple[str, Callable[[ExitStack, int], None]], ...] = (
        ("the kernel's driver", partial(kernel, wireguard)),
        ("`wireguard-go`", partial(userspace, wireguard)),
    )
    print(f"kernel {os.uname().release}, {os.cpu_count()} CPUs, load {os.getloadavg()[0]:.0f}")
    with tempfile.TemporaryDirectory() as folder:
        for number, (name, add) in enumerate(drivers):
            with ExitStack() as stack:
                ends = stack.enter_context(pair(Path(folder) / str(number)))
                if not number:
                    print(measured("not encrypted", ends, _OUTER[1]), flush=True)
                try:
                    for end, each in enumerate(ends):
                        with namespaces.inside(each):
                            add(stack, end)
                    print(measured(name, ends, _INNER[1]), flush=True)
                except OSError as error:
                    print(f"| {name} | not measured: {error} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
