"""The metadata server identifies the calling pod by the interface of its connection."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tarmac.agent.metadata.metadatatokens import MetadataTokens
from tarmac.agent.metadata.server import LIMITS, MetadataServer
from tarmac.agent.metadata.service import MetadataService
from tarmac.api.schema import JsonObject
from tarmac.base.clock import SystemClock
from tarmac.base.randomness import Randomness
from tarmac.base.tasks import background

LOOPBACK = 1  # the index of the first link in every namespace


@asynccontextmanager
async def serving() -> AsyncGenerator[tuple[str, int]]:
    async def identify(_pod: JsonObject, audience: str, _seconds: int) -> tuple[str, float]:
        return audience, 0.0

    def pod_at(network: str, link: int) -> JsonObject | None:
        known = {("default/default", LOOPBACK): {"metadata": {"name": "web-0", "namespace": "default", "uid": "p"}}}
        return known.get((network, link))

    server = MetadataServer(
        MetadataService(MetadataTokens(SystemClock(), Randomness()), identify, "DFW", lambda _: []), pod_at
    )
    await server.start()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.setblocking(False)
        async with background(server.serve("default/default", listening), "metadata server"):
            yield listening.getsockname()
    await server.stop()


async def ask(at: tuple[str, int], request: str) -> tuple[int, str]:
    reader, writer = await asyncio.open_connection(*at)
    try:
        writer.write(request.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        async with asyncio.timeout(5):
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            length = next(line.split(":")[1] for line in head.lower().splitlines() if line.startswith("content-length"))
            return int(head.split()[1]), (await reader.readexactly(int(length))).decode()
    finally:
        writer.close()
        await writer.wait_closed()


async def test_a_pod_asks_for_a_token_and_then_its_name() -> None:
    async with serving() as at:
        put = "PUT /v1/token HTTP/1.1\nHost: x\nContent-Length: 0\nX-Tarmac-Metadata-Token-TTL-Seconds: 60"
        status, token = await ask(at, put)
        assert status == 200
        get = "GET /v1/instance/name HTTP/1.1\nHost: x"
        assert await ask(at, f"{get}\nX-Tarmac-Metadata-Token: {token}") == (200, "web-0")
        assert (await ask(at, get))[0] == 401
        assert (await ask(at, f"{get}\nX-Tarmac-Metadata-Token: {token}\nX-Forwarded-For: 1.2.3.4"))[0] == 403


async def test_large_and_broken_requests_stop_nobody() -> None:
    async with serving() as at:
        assert (await ask(at, f"GET /{'a' * LIMITS.head} HTTP/1.1\nHost: x"))[0] in (400, 414, 431)
        assert (await ask(at, "nonsense"))[0] == 400
        assert (await ask(at, "GET /v1/instance HTTP/1.1\nHost: x"))[0] == 401
