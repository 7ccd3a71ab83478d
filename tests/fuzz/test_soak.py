"""A million mutated requests, frames and packets against a server and a node; six thousand outside of the soak.

No process may crash, no response may be a 5xx that Kubernetes does not give, no loop may be blocked for 50 ms of CPU,
the runtime may get only our own frames, and memory must return to its start when all objects are deleted. A failure
names the cases to run again:

    TARMAC_SEED=7 TARMAC_CASES=1200-1300 python -m pytest tests/fuzz/test_soak.py -k server
"""

from __future__ import annotations

import json
import os
import socket
import ssl
import subprocess
import sys
from collections.abc import Generator, Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from benchmarks.processes import resident_bytes
from tests.agent.dns.asking import ask
from tests.fuzz.conversations import conversation, packet
from tests.fuzz.corpus import NAMESPACE, Case, collection, request, stored, unharmed
from tests.fuzz.test_random_input import is_failure
from tests.fuzz.watched import REPORT
from tests.soak import SOAK
from tests.support.readable import readable
from tests.support.tarmac_process import TarmacProcess

pytestmark = [pytest.mark.slow]

SEED = int(os.environ.get("TARMAC_SEED", "7"))
TOTAL = 1_000_000 if SOAK else 2_000
SHARES = {"server": 0.5, "frames": 0.3, "packets": 0.2}
CHUNK = 500  # stalls are checked after so many cases
# Bytes of memory that may stay: fragments that the allocator cannot return, since small live objects lie between large
# freed ones, and caches that fill up. The history for watches (20,000 events) counts only from where it is full.
GROWTH = 32_000_000
TIMEOUT = 7200 if SOAK else 300


def numbers(what: str) -> range:
    """The cases to run."""
    chosen = os.environ.get("TARMAC_CASES")
    if chosen:
        first, _, last = chosen.partition("-")
        return range(int(first), int(last or first) + 1)
    return range(int(TOTAL * SHARES[what]))


def again(what: str, first: int, last: int) -> str:
    """The command that runs these cases again."""
    return f"\nagain: TARMAC_SEED={SEED} TARMAC_CASES={first}-{last} python -m pytest tests/fuzz/test_soak.py -k {what}"


class Stalls:
    """The stalls that a process reports."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read = 0
        path.touch()

    def new(self) -> list[dict[str, Any]]:
        """Return the stalls since the last call."""
        lines = self._path.read_text().splitlines()
        fresh, self._read = lines[self._read :], len(lines)
        return [json.loads(line) for line in fresh]


def check_stalls(stalls: Stalls, what: str, first: int, last: int) -> None:
    """Fail if there was one."""
    found = stalls.new()
    told = "\n".join(f"{each['ms']} ms of CPU\n{each['stack']}" for each in found[:3])
    assert not found, f"{what}: the loop was held {len(found)} times: {told}{again(what, first, last)}"


# Requests.


class Door:
    """One connection to the server, made again when it is closed."""

    def __init__(self, server: TarmacProcess) -> None:
        self._server = server
        self._context = server.client_context()
        self._socket: ssl.SSLSocket | None = None
        self._rest = b""

    def send(self, case: Case, number: int) -> tuple[int, bytes]:
        """The status and the body of the answer."""
        head = f"{case.method} {case.path} HTTP/1.1\r\nHost: x\r\nContent-Type: {case.content_type}\r\n"
        head += f"User-Agent: fuzz\r\nContent-Length: {len(case.body)}\r\n\r\n"
        for _ in range(2):
            connection = self._socket or self._connected()
            try:
                connection.sendall(head.encode() + case.body)
                return self._answer(connection)
            except (ConnectionError, EOFError):  # it was idle for too long, or its last request was rejected
                self.close()
        pytest.fail(f"no answer to {case}{again('server', number, number)}\n{self._server.log.read_text()[-3000:]}")

    def close(self) -> None:
        """Close the connection."""
        if self._socket is not None:
            self._socket.close()
        self._socket, self._rest = None, b""

    def _connected(self) -> ssl.SSLSocket:
        host, _, port = self._server.authority.rpartition(":")
        made = socket.create_connection((host, int(port)), timeout=20)
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket = self._context.wrap_socket(made, server_hostname=host)
        return self._socket

    def _answer(self, connection: ssl.SSLSocket) -> tuple[int, bytes]:
        while b"\r\n\r\n" not in self._rest:
            self._more(connection)
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        fields = dict(line.lower().split(b": ", 1) for line in head.split(b"\r\n")[1:])
        status, length = int(head.split(b" ", 2)[1]), int(fields.get(b"content-length", b"0"))
        while len(self._rest) < length:
            self._more(connection)
        body, self._rest = self._rest[:length], self._rest[length:]
        if fields.get(b"connection") == b"close":
            self.close()
        return status, body

    def _more(self, connection: ssl.SSLSocket) -> None:
        data = connection.recv(65536)
        if not data:
            raise EOFError
        self._rest += data


def cleaned(door: Door) -> None:
    """Assert that no created object is left, with any finalizers or owners."""
    for resource in stored():
        path = collection(resource)
        _, listed = door.send(Case("GET", path, b"", "application/json"), 0)
        for item in json.loads(listed).get("items") or ():
            metadata = item["metadata"]
            if resource.namespaced or metadata["name"].startswith("fuzz-"):
                if metadata.get("finalizers"):
                    patch = b'{"metadata":{"finalizers":null}}'
                    door.send(Case("PATCH", f"{path}/{metadata['name']}", patch, "application/merge-patch+json"), 0)
                door.send(Case("DELETE", f"{path}/{metadata['name']}?gracePeriodSeconds=0", b"", "application/json"), 0)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[tuple[TarmacProcess, Stalls]]:
    monkeypatch.setenv(REPORT, str(tmp_path / "stalls.jsonl"))
    with TarmacProcess(tmp_path / "data", program=("tests.fuzz.watched",)) as process:
        yield process, Stalls(tmp_path / "stalls.jsonl")


@pytest.mark.soak(minutes=40)
@pytest.mark.timeout(TIMEOUT)
def test_mutated_requests_to_a_server(server: tuple[TarmacProcess, Stalls]) -> None:
    process, stalls = server
    door, cases = Door(process), numbers("server")
    namespace = json.dumps({"metadata": {"name": NAMESPACE}}).encode()
    door.send(Case("POST", "/api/v1/namespaces", namespace, "application/json"), 0)
    statuses: dict[int, int] = {}
    settled, before = cases[0] + len(cases) // 2, 0
    for case in unharmed(SEED):
        door.send(case, 0)
    stalls.new()  # of the start, and of modules that are loaded lazily
    for number in cases:
        case = request(SEED, number)
        status, body = door.send(case, number)
        statuses[status] = statuses.get(status, 0) + 1
        if is_failure(status, body):
            asked = f"{case.method} {case.path} {case.content_type}\n{case.body[:3000]!r}"
            pytest.fail(
                f"{asked}\n→ {status} {body.decode()[:2000]}" + again("server", max(cases[0], number - 200), number)
            )
        if number % CHUNK == CHUNK - 1 or number == cases[-1]:
            check_stalls(stalls, "server", max(cases[0], number - CHUNK), number)
        if number == settled:
            cleaned(door)
            stalls.new()
            before = resident_bytes([process.pid])
    cleaned(door)
    grown = resident_bytes([process.pid]) - before
    door.close()
    print(f"{len(cases)} requests: {dict(sorted(statuses.items()))}; memory grew by {grown / 1e6:.1f} MB")
    assert process.running()
    assert "Traceback" not in process.log.read_text()
    assert statuses.get(201, 0) > len(cases) // 100, "too few were valid to reach far"
    assert grown < GROWTH


# Frames and packets.


class Node:
    """The process with the agent's parts that read input of tenants."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self.stalls = Stalls(folder / "stalls.jsonl")
        command = [sys.executable, "-m", "tests.fuzz.nodeside", str(folder)]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        ready, *ports = self.process.stdout.readline().split()
        assert ready == "ready"
        self.http, self.udp, self.tcp = map(int, ports)

    def check(self, what: str, first: int, last: int) -> None:
        """Fail if there was a violation since the last call."""
        assert self.process.poll() is None, f"the node died{again(what, first, last)}"
        wrong = self.folder / "wrong"
        assert not wrong.exists(), wrong.read_text()[:3000] + again(what, first, last)
        check_stalls(self.stalls, what, first, last)

    @property
    def memory(self) -> int:
        """Return the resident bytes."""
        return resident_bytes([self.process.pid])

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def node(tmp_path: Path) -> Generator[Node]:
    made = Node(tmp_path / "node")
    yield made
    made.close()


def finished(connection: socket.socket) -> None:
    """Close the sending side; the peer may have closed already."""
    with suppress(OSError):
        connection.shutdown(socket.SHUT_WR)


def converse(node: Node, head: bytes, frames: Iterable[bytes]) -> bytes:
    """Send all, and read until the node closes the connection. Return the first line of the response."""
    with socket.create_connection(("127.0.0.1", node.http), timeout=10) as connection:
        heard = b""
        with suppress(ConnectionError):
            connection.sendall(head)
            while b"\r\n\r\n" not in heard:
                heard += connection.recv(65536) or b"\r\n\r\n"
            for frame in frames:
                connection.sendall(frame)
            finished(connection)
            while connection.recv(65536):
                pass
        return heard.partition(b"\r\n")[0]


@pytest.mark.soak(minutes=40)
@pytest.mark.timeout(TIMEOUT)
def test_mutated_frames_to_a_node(node: Node) -> None:
    wanted, first, sent, before = len(numbers("frames")), numbers("frames")[0], 0, 0
    number, since, chosen = first, first, bool(os.environ.get("TARMAC_CASES"))
    while (number <= numbers("frames")[-1]) if chosen else (sent < wanted):
        talk = conversation(SEED, number)
        line = converse(node, talk.head, talk.frames)
        assert line.startswith(b"HTTP/1.1 101"), f"{line!r}{again('frames', number, number)}"
        sent += len(talk.frames)
        number += 1
        if number % 50 == 0:
            node.check("frames", since, number)
            since = number
        if not before and sent > wanted / 5:
            before = node.memory
    with socket.create_connection(("127.0.0.1", node.http), timeout=10) as connection:
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
    node.check("frames", since, number)
    grown = node.memory - before
    print(f"{sent} frames in {number - first} connections; memory grew by {grown / 1e6:.1f} MB")
    assert grown < GROWTH


SENTINEL = ask("web.default.svc.cluster.local", number=0x7777)


def answered(asking: socket.socket) -> bool:
    """Return true once the name server has answered the sentinel."""
    for _ in range(5):
        asking.send(SENTINEL)
        while readable(asking.fileno(), 2):
            if asking.recv(65535)[:2] == b"\x77\x77":
                return True
    return False


def over_tcp(node: Node, packets: list[bytes]) -> None:
    with socket.create_connection(("127.0.0.1", node.tcp), timeout=10) as connection, suppress(ConnectionError):
        for each in packets:
            connection.sendall(len(each).to_bytes(2) + each)
        finished(connection)
        while connection.recv(65536):
            pass


@pytest.mark.soak(minutes=40)
@pytest.mark.timeout(TIMEOUT)
def test_mutated_packets_to_a_node(node: Node) -> None:
    cases, before = numbers("packets"), 0
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect(("127.0.0.1", node.udp))
        for start in range(cases[0], cases[-1] + 1, 20):
            some = [packet(SEED, number) for number in range(start, min(start + 20, cases[-1] + 1))]
            if start // 20 % 10 == 9:
                over_tcp(node, some)
            else:
                for each in some:
                    asking.send(each)
            assert answered(asking), f"no answer any more{again('packets', start, start + 20)}"
            if start // 20 % 25 == 24:
                node.check("packets", max(cases[0], start - CHUNK), start + 20)
            if not before and start > cases[0] + len(cases) / 5:
                before = node.memory
    node.check("packets", max(cases[0], cases[-1] - CHUNK), cases[-1])
    grown = node.memory - before
    print(f"{len(cases)} packets; memory grew by {grown / 1e6:.1f} MB")
    assert grown < GROWTH
