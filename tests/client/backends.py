"""The servers the client's contract is checked against: a model, ours (in process and over TLS), and the real one."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tarmac.api.catalog import build_catalog
from tarmac.api.schema import JsonObject
from tarmac.api.status import ApiError, Forbidden
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig, HttpTransport
from tarmac.client.local import LocalTransport
from tarmac.server.admission.default import default_chain
from tarmac.server.app import ApiServer, Gates
from tarmac.server.assembly import Parts, assemble
from tarmac.server.http.listener import serve
from tarmac.server.http.messages import Answer, Request
from tarmac.server.http.tls import server_context
from tarmac.server.reader import Reader
from tarmac.server.requestinfo import RequestInfo
from tarmac.server.security.pki import Pki
from tarmac.server.security.users import User
from tarmac.store.memory import MemoryStore
from tests.client.model_server import ModelServer
from tests.support.peer import Peer

ADMIN = User("admin", groups=("system:masters",))


class _OpenGates:
    """Everybody is the administrator."""

    def authenticate(self, request: Request) -> User:
        return ADMIN

    def allows(self, user: User, info: RequestInfo, query: str = "") -> bool:
        return True

    def refusal(self, user: User, info: RequestInfo, query: str = "") -> ApiError:
        return Forbidden(f"{user.name} may not {info.verb}")

    def enter(self, user: User, info: RequestInfo) -> Awaitable[None] | None:
        return None

    def leave(self, user: User, info: RequestInfo) -> None:
        pass

    def record(self, request: Request, answer: Answer) -> None:
        pass

    def answer(self, plural: str, user: User, namespace: str, review: JsonObject) -> JsonObject:
        return {**review, "status": {"allowed": True}}

    def issue(self, namespace: str, name: str, request: JsonObject) -> JsonObject:
        raise Forbidden("no tokens here")


@asynccontextmanager
async def model() -> AsyncGenerator[Client]:
    yield Client(ModelServer(clock=SystemClock()).transport())


@asynccontextmanager
async def our_server() -> AsyncGenerator[tuple[ApiServer, MemoryStore]]:
    clock, randomness = SystemClock(), Randomness()
    store = MemoryStore(clock=clock)
    await store.start()
    gates = _OpenGates()
    server = assemble(
        Parts(
            store=store,
            catalog=build_catalog(),
            gates=Gates(gates, gates, gates, gates),
            admission=default_chain(Reader(store), randomness),
            clock=clock,
            randomness=randomness,
            reviews=gates,
            issuer=gates,
        )
    )
    await server.start()
    yield server, store
    await server.stop()
    await store.close()


def local_transport(server: ApiServer, store: MemoryStore) -> LocalTransport:
    """How a composition root joins client and server."""

    def handle(method: str, path: str, query: str, headers: Mapping[str, str], body: bytes) -> Any:
        return server.handle(Request(method, path, query, headers, body, user=ADMIN))

    def share(group: str, plural: str, key: str, raw: bytes) -> bytes:
        entry = store.get(f"{group or 'core'}/{plural}", key)
        return entry.raw if entry is not None and entry.raw == raw else raw

    return LocalTransport(handle, share)


@asynccontextmanager
async def in_process() -> AsyncGenerator[Client]:
    async with our_server() as (server, store):
        yield Client(local_transport(server, store))


@asynccontextmanager
async def over_tls(directory: Path) -> AsyncGenerator[Client]:
    pki = Pki(directory, SystemClock())
    certificate, key = pki.server_files(["127.0.0.1"])
    async with our_server() as (server, _):
        listener = await serve(server.handle, server_context(certificate, key, pki.ca_file), "127.0.0.1", 0)
        admin = pki.admin()
        config = HttpConfig(
            f"https://127.0.0.1:{listener.port}",
            ca=pki.ca_file.read_text(),
            certificate=admin.certificate.decode(),
            key=admin.key.decode(),
        )
        client = Client(HttpTransport(config))
        yield client
        await client.close()
        await listener.stop(grace=1)


@asynccontextmanager
async def real(peer: Peer) -> AsyncGenerator[Client]:
    client = Client(HttpTransport(HttpConfig(peer.url, ca=peer.ca, token=peer.token)))
    yield client
    await client.close()
