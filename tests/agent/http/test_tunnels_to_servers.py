"""A node keeps one tunnel to each API server, opens streams on request, and serves its API on them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass, field

import msgspec
import pytest

from tarmac.agent.http.tunnel import PROTOCOL, STREAM, ServerTunnels
from tarmac.api.schema import JsonObject
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.client.client import Client
from tarmac.client.http import HttpConfig
from tarmac.client.local import LocalTransport
from tarmac.client.serverlist import KnownServers
from tarmac.http.clientrequest import hand_over, request_head, send_request
from tarmac.http.listener import Listener, serve
from tarmac.http.messages import Answer, Request, Response, UpgradeResponse
from tarmac.wire.websocket import Socket, accept_key
from tests.agent.http.stage import Stage

PATH = "/tarmac/v1/nodes/n1/tunnel"


@dataclass
class FakeServer:
    """The part of an API server that serves tunnels. `knows` is False for a server without support for them."""

    knows: bool = True
    listener: Listener | None = None
    asked: list[Request] = field(default_factory=list[Request])
    tunnels: list[asyncio.Transport] = field(default_factory=list[asyncio.Transport])
    streams: dict[str, asyncio.Future[tuple[asyncio.Transport, bytes]]] = field(
        default_factory=dict[str, "asyncio.Future[tuple[asyncio.Transport, bytes]]"]
    )

    async def start(self) -> str:
        self.listener = await serve(self._answer, None)
        return f"http://127.0.0.1:{self.listener.port}"

    def _answer(self, request: Request) -> Answer:
        self.asked.append(request)
        if not self.knows:
            return Response(404, b"404 page not found", "text/plain")
        if request.path == PATH:
            assert PROTOCOL in request.headers["sec-websocket-protocol"]
            accept = accept_key(request.headers["sec-websocket-key"])
            headers = [("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Sec-WebSocket-Accept", accept)]
            return UpgradeResponse(lambda transport, _: self.tunnels.append(transport), headers)
        arriving = self.streams[request.path.removeprefix(f"{PATH}/")]
        headers = [("Connection", "Upgrade"), ("Upgrade", STREAM)]
        return UpgradeResponse(lambda transport, rest: arriving.set_result((transport, rest)), headers)

    async def connected(self, count: int = 1) -> None:
        async with asyncio.timeout(10):
            while len([each for each in self.tunnels if not each.is_closing()]) < count:
                await asyncio.sleep(0.01)

    async def get(self, path: str, token: str = "t") -> bytes:
        """Send a request to the node over its newest tunnel."""
        self.streams[token] = asyncio.get_running_loop().create_future()
        socket = Socket()
        socket.send(b'{"open":"%b"}' % token.encode(), text=True)
        self.tunnels[-1].write(socket.take())

        async def over(factory: object) -> None:
            hand_over(*await self.streams[token], factory)  # type: ignore[arg-type]  # pyright: ignore

        return await (await send_request(over, request_head("GET", path, "n1", [("Connection", "close")]), 5)).read(
            10_000
        )


@pytest.fixture
async def servers() -> AsyncGenerator[list[FakeServer]]:
    made = [FakeServer(), FakeServer()]
    yield made
    for server in made:
        if server.listener is not None:
            await server.listener.stop(0.1)


@pytest.fixture
async def keep(node: Stage) -> AsyncGenerator[list[str]]:
    """The node's list of servers; changes take effect soon."""
    urls: list[str] = []

    async def known() -> list[str]:
        return list(urls)

    config = HttpConfig("http://unused", token="secret")
    clock = _Hurried()
    task = asyncio.ensure_future(ServerTunnels(node.api, "n1", lambda: config, known, clock, Randomness()).run())
    yield urls
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


class _Hurried(SystemClock):
    """Sleeps a hundredth of the requested time."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds / 100)


async def test_each_server_reaches_the_node_over_its_own_tunnel(servers: list[FakeServer], keep: list[str]) -> None:
    keep += [await server.start() for server in servers]
    for server in servers:
        await server.connected()
        assert server.asked[0].headers["authorization"] == "Bearer secret"
        assert await server.get("/healthz") == b"ok"
    several = await asyncio.gather(*(servers[0].get("/healthz", f"t{number}") for number in range(20)))
    assert several == [b"ok"] * 20


async def test_a_lost_tunnel_is_opened_again_and_one_that_is_not_wanted_is_closed(
    servers: list[FakeServer], keep: list[str]
) -> None:
    keep.append(await servers[0].start())
    await servers[0].connected()
    servers[0].tunnels[0].abort()
    await servers[0].connected()
    assert await servers[0].get("/healthz") == b"ok"
    keep.clear()
    async with asyncio.timeout(5):
        while not servers[0].tunnels[-1].is_closing():
            await asyncio.sleep(0.01)


async def test_a_server_that_knows_no_tunnels_is_asked_rarely(servers: list[FakeServer], keep: list[str]) -> None:
    servers[0].knows = False
    keep.append(await servers[0].start())
    async with asyncio.timeout(5):
        while not servers[0].asked:
            await asyncio.sleep(0.01)
    await asyncio.sleep(0.5)
    assert len(servers[0].asked) == 1


@pytest.mark.parametrize("said", [b"\x81\x03abc", b"\x82\x7f" + b"\xff" * 8 + b"x" * 9000, b"\xff\xff\xff\xff"])
async def test_nonsense_on_a_tunnel_ends_it_and_another_is_opened(
    servers: list[FakeServer], keep: list[str], said: bytes
) -> None:
    keep.append(await servers[0].start())
    await servers[0].connected()
    servers[0].tunnels[0].write(said)
    async with asyncio.timeout(5):
        while len(servers[0].tunnels) < 2:
            await asyncio.sleep(0.01)
    assert await servers[0].get("/healthz") == b"ok"


def answering(parts: list[JsonObject] | None) -> Client:
    """Return a client of a server with these EndpointSlices, or of one that denies reading them."""

    def handle(method: str, path: str, query: str, headers: object, body: bytes) -> Response:
        if parts is None:
            return Response(403, b'{"kind":"Status","code":403,"reason":"Forbidden","message":"no"}')
        listed = {"kind": "EndpointSliceList", "metadata": {"resourceVersion": "1"}, "items": parts}
        return Response(200, msgspec.json.encode(listed))

    return Client(LocalTransport(handle), SystemClock(), Randomness())


def endpoint_slice(name: str, *addresses: str) -> JsonObject:
    labels = {"kubernetes.io/service-name": "kubernetes"}
    return {
        "metadata": {"name": name, "namespace": "default", "uid": name, "resourceVersion": "1", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "https", "port": 6443}],
        "endpoints": [{"addresses": [address]} for address in addresses],
    }


async def test_servers_are_those_behind_the_kubernetes_service() -> None:
    slices = [endpoint_slice("kubernetes", "10.0.0.1", "10.0.0.2"), endpoint_slice("kubernetes-6", "fd00::1")]
    found = await KnownServers(answering(slices), lambda: "https://told:6443")()
    assert found == ["https://10.0.0.1:6443", "https://10.0.0.2:6443", "https://[fd00::1]:6443"]
    for nothing in ([], None):
        assert await KnownServers(answering(nothing), lambda: "https://told:6443")() == ["https://told:6443"]
