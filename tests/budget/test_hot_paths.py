"""No hot path doubles its cost unnoticed.

Each path is run in process, with authorization, admission, validation, managed fields, audit and metrics on, and with
the garbage collector watching, as in the product; only sockets and disk are left out. Its CPU time is compared with
that of a fixed workload of the same nature, measured in the same rounds: the ratio is nearly the same on fast and slow,
quiet and busy machines. The budgets are twice the ratios at the time of writing; `make bench` measures the promises
themselves, and docs/numbers lists them.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from time import thread_time
from typing import Any

import msgspec
import pytest

from benchmarks.samplepods import POD_SPEC, POD_STATUS
from tarmac.apps.control_plane import Address, Chosen, control_plane
from tarmac.apps.layout import Layout
from tarmac.http.messages import Chunk, Request, Response, StreamResponse
from tarmac.server.app import ApiServer
from tarmac.server.security.users import User

ADMIN = User("admin", groups=("system:masters", "system:authenticated"))
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
ROUNDS = 15
BATCH = 16  # concurrent writers
LISTED = 500
WATCHERS = 300

# CPU time of one request in turns of the yardstick: twice the measured cost.
GET_BUDGET = 1.0
CREATE_BUDGET = 14.0
UPDATE_BUDGET = 20.0
APPLY_BUDGET = 26.0
POD_BUDGET = 44.0
STATUS_BUDGET = 40.0
LIST_BUDGET = 0.075  # for each object
FAN_OUT_BUDGET = 0.6  # for each event and watcher

PODS = "/api/v1/namespaces/default/pods"


class Sink:
    """A watcher that accepts all data."""

    def __init__(self) -> None:
        self.events = 0
        self.bytes = 0

    def write(self, data: bytes) -> bool:
        self.events += data.count(b"\n")
        self.bytes += len(data)
        return True

    def write_chunk(self, chunk: Chunk) -> bool:
        return self.write(chunk.data)

    def close(self) -> None:
        pass

    def abort(self) -> None:
        self.close()

    async def drained(self) -> None:
        pass

    @property
    def buffered(self) -> int:
        return 0


class Server:
    """The server under test, called as its listener calls it."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._made = 0

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json", query: str = "") -> Any:
        headers = {"accept": "application/json", "user-agent": "budget", "content-type": kind}
        encoded = b"" if body is None else msgspec.json.encode(body)
        return self._server.handle(Request(method, path, query, headers, encoded, user=ADMIN))

    def create(self) -> Awaitable[Response]:
        self._made += 1
        return self.call("POST", CONFIG_MAPS, config_map(f"made-{self._made:06}"))

    async def write(self, count: int, start: Callable[[], Awaitable[Response]]) -> None:
        for _ in range(0, count, BATCH):
            for answer in await asyncio.gather(*(start() for _ in range(BATCH))):
                assert answer.status in (200, 201), answer.body

    async def read(self, path: str, query: str = "") -> Any:
        """Return the response: immediate, unless this turn's budget of immediate reads is used up."""
        answer = self.call("GET", path, query=query)
        return await answer if inspect.isawaitable(answer) else answer

    async def watch(self, path: str = CONFIG_MAPS, query: str = "labelSelector=budget") -> Sink:
        answer = await self.read(path, f"watch=1&{query}")
        assert isinstance(answer, StreamResponse)
        sink = Sink()
        answer.start(sink)
        return sink


def config_map(name: str, payload: str = "x" * 850) -> dict[str, Any]:
    labels = {"budget": "watched"} if name.startswith("watched") else {"app": "budget"}
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "labels": labels},
        "data": {"payload": payload},
    }


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[Server]:
    layout = Layout(tmp_path, tmp_path / "pki", tmp_path / "secrets.key", "memory://")
    async with control_plane(layout, Address("127.0.0.1", 0), Chosen("garbage")) as running:
        await asyncio.sleep(0.5)  # until background tasks have started
        yield Server(running.server)


def yardstick() -> int:
    """Do the work of a typical request: JSON both ways, look-ups, small objects, calls, text."""
    found = 0
    for number in range(4):
        obj = msgspec.json.decode(msgspec.json.encode(config_map(f"name-{number}")))
        fields = {f"f:{key}": sorted(value) for key, value in obj.items() if isinstance(value, dict)}
        found += sum(len(names) for names in fields.values())
    return found


async def cost(run: Callable[[], Awaitable[None] | None], requests: int) -> float:
    """Return the CPU time of one request in turns of the yardstick: the least of alternating rounds of both."""
    least, unit = [float("inf")] * 2
    for _ in range(ROUNDS):
        begin = thread_time()
        for _ in range(50):
            yardstick()
        unit = min(unit, (thread_time() - begin) / 50)
        begin = thread_time()
        waiting = run()
        if inspect.isawaitable(waiting):
            await waiting
        least = min(least, (thread_time() - begin) / requests)
    return least / unit


async def test_get(server: Server) -> None:
    await server.write(BATCH, server.create)

    async def run() -> None:
        for _ in range(4):
            for _ in range(50):
                assert (await server.read(f"{CONFIG_MAPS}/made-000001")).status == 200
            await asyncio.sleep(0)  # the server allows a client this many immediate reads in one turn

    assert await cost(run, 200) < GET_BUDGET


async def test_create(server: Server) -> None:
    assert await cost(lambda: server.write(160, server.create), 160) < CREATE_BUDGET


async def test_update(server: Server) -> None:
    await server.write(BATCH, server.create)
    turn = 0

    def update() -> Awaitable[Response]:
        nonlocal turn
        turn += 1
        name = f"made-{turn % BATCH + 1:06}"
        return server.call("PUT", f"{CONFIG_MAPS}/{name}", config_map(name, f"{turn}" + "x" * 850))

    assert await cost(lambda: server.write(160, update), 160) < UPDATE_BUDGET


async def test_replicas_of_a_pod_and_what_a_node_says_of_them(server: Server) -> None:
    await server.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    made = reported = 0

    def create() -> Awaitable[Response]:
        nonlocal made
        made += 1
        return server.call("POST", PODS, {"metadata": {"name": f"pod-{made}"}, "spec": POD_SPEC})

    def report() -> Awaitable[Response]:
        nonlocal reported
        reported += 1
        path, merge = f"{PODS}/pod-{reported}/status", "application/strategic-merge-patch+json"
        return server.call("PATCH", path, {"status": POD_STATUS}, merge)

    assert await cost(lambda: server.write(48, create), 48) < POD_BUDGET
    assert await cost(lambda: server.write(48, report), 48) < STATUS_BUDGET


async def test_apply(server: Server) -> None:
    turn = 0

    def apply() -> Awaitable[Response]:
        nonlocal turn
        turn += 1
        path = f"{CONFIG_MAPS}/applied-{turn % BATCH}"
        body = config_map(f"applied-{turn % BATCH}", f"{turn}" + "x" * 850)
        return server.call("PATCH", path, body, "application/apply-patch+yaml", "fieldManager=budget&force=true")

    assert await cost(lambda: server.write(160, apply), 160) < APPLY_BUDGET


async def test_list(server: Server) -> None:
    await server.write(LISTED, server.create)
    lists = 20

    async def run() -> None:
        for _ in range(lists):
            answer = await server.read(CONFIG_MAPS)
            assert len(b"".join(answer.body)) > LISTED * 1000

    assert await cost(run, lists * LISTED) < LIST_BUDGET


async def test_fan_out(server: Server) -> None:
    sinks = [await server.watch() for _ in range(WATCHERS)]
    made = 0

    async def run() -> None:
        nonlocal made
        for _ in range(5):
            made += 1
            answer = await server.call("POST", CONFIG_MAPS, config_map(f"watched-{made}"))
            assert answer.status == 201
            await asyncio.sleep(0.01)  # events closer than the fan-out's pause would share a write

    assert await cost(run, 5 * WATCHERS) < FAN_OUT_BUDGET
    await asyncio.sleep(0.1)
    assert {sink.events for sink in sinks} == {5 * ROUNDS}


ENDPOINTS = "/apis/networking.datumapis.com/v1alpha/podendpoints"
CHANGES = 10  # per round


async def watching_pods(server: Server, path: str, watchers: int) -> tuple[float, float, int]:
    """Return the costs of a visible and of a hidden change of a pod, and the bytes that one watcher received."""
    name = f"{path.rpartition('/')[2]}-{watchers}"
    container = {"name": "c", "image": "registry.example/c:1", "env": [{"name": "A", "value": "x" * 1500}]}
    spec = {"nodeName": "n1", "automountServiceAccountToken": False, "containers": [container]}
    assert (await server.call("POST", PODS, {"metadata": {"name": name}, "spec": spec})).status == 201
    sinks = [await server.watch(path, f"fieldSelector=metadata.name%3D{name}") for _ in range(watchers)]
    turn = 0

    async def change(where: str) -> None:
        nonlocal turn
        for _ in range(CHANGES):
            turn += 1
            patch = {"metadata": {where: {"turn": f"{turn}"}}}
            answer = await server.call("PATCH", f"{PODS}/{name}", patch, "application/merge-patch+json")
            assert answer.status == 200, answer.body
            await asyncio.sleep(0.01)

    costs = await cost(lambda: change("labels"), CHANGES), await cost(lambda: change("annotations"), CHANGES)
    return *costs, sinks[0].bytes if sinks else 0


async def test_changes_hidden_from_other_nodes_cost_them_nothing(server: Server) -> None:
    """Compares watchers of PodEndpoints with as many watchers of Pods."""
    await server.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "default"}})
    _, alone, _ = await watching_pods(server, ENDPOINTS, 0)
    shown, hidden, size = await watching_pods(server, ENDPOINTS, WATCHERS)
    whole, status, whole_size = await watching_pods(server, "/api/v1/pods", WATCHERS)
    print(f"a change of a pod and {WATCHERS} watchers, in turns of the yardstick, without the write ({alone:.1f}):")
    print(f"podendpoints {shown - alone:.1f}, when hidden {hidden - alone:.1f}, {size:,} bytes for each watcher")
    print(f"pods {whole - alone:.1f} and {status - alone:.1f}, {whole_size:,} bytes for each watcher")
    assert (shown - alone) / WATCHERS < FAN_OUT_BUDGET
    assert hidden - alone < (status - alone) / 2, "watchers receive nothing"
    assert size * 5 < whole_size
