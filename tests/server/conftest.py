"""A server over a store in memory, and a client that calls `handle` directly."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from tarmac.api.catalog import build_catalog
from tarmac.api.schema import JsonObject
from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.http.messages import Answer, Chunk, Request, Response, StreamResponse, UpgradeResponse
from tarmac.server.admission.chain import AdmissionChain
from tarmac.server.admission.namespacelifecycle import NamespaceLifecycle
from tarmac.server.app import ApiServer, RequestGates
from tarmac.server.assembly import ServerParts, assemble
from tarmac.server.reader import Reader
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.users import User
from tarmac.store.memory import MemoryStore

ADMIN = User("admin", groups=("system:masters",))


class OpenGates:
    """Gates that allow every request but those with `refused` verbs, without an audit log."""

    def __init__(self) -> None:
        self.refused: set[str] = set()
        self.recorded: list[tuple[RequestInfo, int]] = []

    def authenticate(self, request: Request) -> User:
        return ADMIN

    def recognises(self, request: Request) -> bool:
        return True

    def refuses(self, user: User, info: RequestInfo, query: str = "") -> str | None:
        return "not in this test" if info.verb in self.refused else None

    def enter(self, request: Request) -> Awaitable[None] | None:
        return None

    def pause(self, request: Request) -> Awaitable[None] | None:
        return None

    def spend(self, request: Request, seconds: float) -> None:
        pass

    def leave(self, request: Request) -> None:
        pass

    def answer(self, plural: str, user: User, namespace: str, review: JsonObject) -> JsonObject:
        return review | {"status": {"of": user.name, "asked": plural}}

    def issue(self, namespace: str, name: str, request: JsonObject) -> JsonObject:
        return request | {"status": {"token": f"{namespace}/{name}"}}

    def record(self, request: Request, answer: Answer) -> None:
        self.recorded.append((request.info, getattr(answer, "status", 101)))

    def record_end(self, request: Request, answer: UpgradeResponse) -> None:
        pass


class Reply:
    """A decoded response."""

    def __init__(self, response: Response) -> None:
        self.status = response.status
        self.headers = response.headers or []
        self.content_type = response.content_type
        body = response.body
        self.raw = body if isinstance(body, bytes) else b"".join(body)

    @property
    def json(self) -> Any:
        return json.loads(self.raw)

    @property
    def message(self) -> str:
        return self.json["message"]

    @property
    def warnings(self) -> list[str]:
        return [value for name, value in self.headers if name == "Warning"]


class Watching:
    """The receiving side of a stream."""

    def __init__(self) -> None:
        self.lines: list[bytes] = []
        self.closed = False
        self.accepting = True
        self.end: Callable[[], None] = lambda: None

    def write(self, data: bytes) -> bool:
        if self.closed or not self.accepting:
            return False
        self.lines += [line for line in data.split(b"\n") if line]
        return True

    def write_chunk(self, chunk: Chunk) -> bool:
        return self.write(chunk.data)

    def close(self) -> None:
        if not self.closed:
            self.closed = True
            self.end()

    def abort(self) -> None:
        self.close()

    async def drained(self) -> None:
        pass

    @property
    def buffered(self) -> int:
        return 0

    @property
    def events(self) -> list[tuple[str, Any]]:
        """Return the events since the last call."""
        lines, self.lines = self.lines, []
        return [(event["type"], event["object"]) for event in map(json.loads, lines)]

    @property
    def names(self) -> list[tuple[str, str]]:
        return [(kind, obj["metadata"].get("name", "")) for kind, obj in self.events]


async def rest() -> None:
    """Let tasks run that the clock has woken."""
    for _ in range(15):
        await asyncio.sleep(0)


class Client:
    """Calls the server as the in-process transport does."""

    def __init__(self, server: ApiServer) -> None:
        self.server = server

    async def _handle(self, request: Request) -> Answer:
        answer = self.server.handle(request)
        return await answer if inspect.isawaitable(answer) else answer

    async def __call__(self, method: str, url: str, body: Any = None, **headers: str) -> Reply:
        path, _, query = url.partition("?")
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        names = {"content-type": "application/json", "user-agent": "tests/1"}
        names |= {name.replace("_", "-"): value for name, value in headers.items()}
        answer = await self._handle(Request(method, path, query, names, data))
        assert isinstance(answer, Response)
        return Reply(answer)

    async def get(self, url: str, **headers: str) -> Reply:
        return await self("GET", url, **headers)

    async def post(self, url: str, body: Any, **headers: str) -> Reply:
        return await self("POST", url, body, **headers)

    async def put(self, url: str, body: Any, **headers: str) -> Reply:
        return await self("PUT", url, body, **headers)

    async def delete(self, url: str, body: Any = None, **headers: str) -> Reply:
        return await self("DELETE", url, body, **headers)

    async def patch(self, url: str, body: Any, kind: str = "merge", **headers: str) -> Reply:
        types = {
            "merge": "application/merge-patch+json",
            "json": "application/json-patch+json",
            "strategic": "application/strategic-merge-patch+json",
            "apply": "application/apply-patch+yaml",
        }
        return await self("PATCH", url, body, content_type=types[kind], **headers)

    async def watch(self, url: str, **headers: str) -> Watching:
        path, _, query = url.partition("?")
        answer = await self._handle(Request("GET", path, query, headers))
        assert isinstance(answer, StreamResponse), answer
        stream = Watching()
        end = answer.start(stream)
        if stream.closed:
            end()
        stream.end = end
        return stream

    async def configmap(self, name: str, namespace: str = "default", **data: str) -> Any:
        """A ConfigMap, created."""
        reply = await self.post(
            f"/api/v1/namespaces/{namespace}/configmaps", {"metadata": {"name": name}, "data": data}
        )
        assert reply.status == 201, reply.raw
        return reply.json


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def store(clock: ManualClock) -> AsyncIterator[MemoryStore]:
    store = MemoryStore(clock=clock)
    await store.start()
    yield store
    await store.close()


@pytest.fixture
def gates() -> OpenGates:
    return OpenGates()


@pytest.fixture
async def server(store: MemoryStore, clock: ManualClock, gates: OpenGates) -> AsyncIterator[ApiServer]:
    parts = ServerParts(
        store=store,
        catalog=build_catalog(),
        gates=RequestGates(gates, gates, gates, gates),
        admission=AdmissionChain((NamespaceLifecycle(Reader(store)),)),
        clock=clock,
        randomness=Randomness(7),
        reviews=gates,
        issuer=gates,
    )
    server = assemble(parts)
    await server.start()
    await Client(server).post("/api/v1/namespaces", {"metadata": {"name": "default"}})
    yield server
    await server.stop()


@pytest.fixture
def api(server: ApiServer) -> Client:
    return Client(server)
