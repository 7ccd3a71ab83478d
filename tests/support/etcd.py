"""A real etcd for tests: one or three members on loopback, in a temporary folder, gone afterwards.

The binary is `$TARMAC_ETCD`, else Debian's from the cache (`python -m tools.fetch_etcd`), else one on the PATH. With
PEERS=1 the current etcd that `make` built from source joins in.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import time
from pathlib import Path

from tests.support.ports import free_ports
from tools.cache import cache_root
from tools.debs import found
from tools.fetch_etcd import ETCD

_START_SECONDS = 20.0


def find_etcd() -> Path | None:
    """The etcd to test with; None when there is none."""
    if "TARMAC_ETCD" in os.environ:
        return Path(os.environ["TARMAC_ETCD"])
    on_path = shutil.which("etcd")
    return found(*ETCD) or (Path(on_path) if on_path else None)


def find_peer_etcd() -> Path | None:
    """The newest one built from source, with PEERS=1."""
    if os.environ.get("PEERS") != "1" or "TARMAC_ETCD" in os.environ:
        return None
    return max(cache_root().glob("etcd-*/etcd"), default=None, key=lambda path: path.parent.name)


class EtcdCluster:
    """Members that can be killed and brought back."""

    def __init__(
        self, binary: Path, folder: Path, members: int = 1, extra: tuple[str, ...] = (), *, tls: bool = False
    ) -> None:
        """Clients need certificates with `tls`: `folder` has ca, server and client (`.pem`, `.key`)."""
        self._tls = tls
        self._binary = binary
        self._folder = folder
        self._extra = extra
        ports = free_ports(2 * members)
        self._clients = ports[:members]
        self._peers = ports[members:]
        self._processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def endpoints(self) -> list[str]:
        """HOST:PORT of each member."""
        return [f"127.0.0.1:{port}" for port in self._clients]

    def start(self) -> None:
        """Start all members and wait until they answer."""
        for number in range(len(self._clients)):
            self.start_member(number)
        self.wait_ready()

    def start_member(self, number: int) -> None:
        """Start one member, with the data it had."""
        name = f"m{number}"
        client, peer = self._clients[number], self._peers[number]
        scheme = "https" if self._tls else "http"
        cluster = ",".join(f"m{i}=http://127.0.0.1:{port}" for i, port in enumerate(self._peers))
        command = [
            str(self._binary), "--name", name, "--data-dir", str(self._folder / name),
            "--listen-client-urls", f"{scheme}://127.0.0.1:{client}",
            "--advertise-client-urls", f"{scheme}://127.0.0.1:{client}",
            "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls", f"http://127.0.0.1:{peer}",
            "--initial-cluster", cluster, "--heartbeat-interval", "50", "--election-timeout", "300",
            "--logger", "zap", *self._extra,
        ]  # fmt: skip
        if self._tls:
            command += ["--cert-file", f"{self._folder}/server.pem", "--key-file", f"{self._folder}/server.key"]
            command += ["--client-cert-auth", "--trusted-ca-file", f"{self._folder}/ca.pem"]
        with (self._folder / f"{name}.log").open("ab") as output:
            self._processes[number] = subprocess.Popen(command, stdout=output, stderr=output)

    def kill_member(self, number: int) -> None:
        """Kill a member with kill -9."""
        process = self._processes.pop(number)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def pid(self, number: int = 0) -> int:
        """The process id of a running member."""
        return self._processes[number].pid

    def leader(self) -> int:
        """The number of the member that leads."""
        for number in self._processes:
            answer = self.call("/v3/maintenance/status", number=number)
            leader = re.search(r'"leader":"(\d+)"', answer)
            member = re.search(r'"member_id":"(\d+)"', answer)
            if leader and member and leader[1] == member[1]:
                return number
        raise AssertionError("no member leads")

    def wait_ready(self) -> None:
        """Wait until each running member takes part in the cluster."""
        deadline = time.monotonic() + _START_SECONDS
        for number in self._processes:
            while '"leader"' not in self.call("/v3/maintenance/status", number=number):
                assert time.monotonic() < deadline, (self._folder / f"m{number}.log").read_text()[-2000:]
                time.sleep(0.05)

    def call(self, path: str, body: str = "{}", *, number: int = 0) -> str:
        """Call the JSON gateway, by hand since tests turn warnings into errors; return "" without a response."""
        head = f"POST {path} HTTP/1.0\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        try:
            with contextlib.ExitStack() as stack:
                connection = stack.enter_context(
                    socket.create_connection(("127.0.0.1", self._clients[number]), timeout=2)
                )
                if self._tls:
                    connection = stack.enter_context(self._context().wrap_socket(connection))
                connection.sendall((head + body).encode())
                return b"".join(iter(lambda: connection.recv(65536), b"")).decode()
        except OSError:
            return ""

    def _context(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.load_verify_locations(self._folder / "ca.pem")
        context.load_cert_chain(self._folder / "client.pem", self._folder / "client.key")
        return context

    def stop(self) -> None:
        """End everything."""
        for number in list(self._processes):
            self.kill_member(number)
