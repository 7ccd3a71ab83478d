"""The client side: one request, a response at the client's pace, or an upgraded connection."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.http.clientrequest import Dial, StreamedReply, hand_over, request_head, send_request, tcp
from tarmac.http.limits import ListenerLimits
from tarmac.http.listener import Listener
from tarmac.http.messages import Answer, Request, Response, UpgradeResponse
from tarmac.http.responseprotocol import ConnectionBroken
from tarmac.http.streams import stream_of
from tests.http.conftest import Server

UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "other")]


def dial(server: Server) -> Dial:
    return tcp("127.0.0.1", server.port, server.client_context())


def get(path: str, headers: list[tuple[str, str]] | None = None) -> bytes:
    return request_head("GET", path, "x", headers or [])


async def test_a_whole_answer(server: Server) -> None:
    await server.start(lambda request: Response(418, b"short", "text/plain", [("X-Own", request.path)]))
    reply = await send_request(dial(server), get("/pot"), 5)
    assert (reply.status, reply.header("x-own"), reply.header("content-type")) == (418, "/pot", "text/plain")
    assert await reply.read(100) == b"short"


async def test_an_answer_that_is_made_as_fast_as_it_is_read(server: Server) -> None:
    made = 0

    async def make() -> AsyncIterator[bytes]:
        nonlocal made
        for _ in range(400):
            made += 1
            yield b"x" * 65536

    await server.start(lambda _: stream_of(make()))
    reply = await send_request(dial(server), get("/"), 5)
    await asyncio.sleep(0.5)
    before = made
    await asyncio.sleep(0.2)
    assert made == before < 300
    size = 0
    async for chunk in reply.chunks():
        size += len(chunk)
    assert size == 400 * 65536


async def test_an_answer_that_breaks_off_is_an_error(server: Server) -> None:
    async def make() -> AsyncIterator[bytes]:
        yield b"half"
        raise ValueError("broken")

    await server.start(lambda _: stream_of(make()))
    reply = await send_request(dial(server), get("/"), 5)
    with pytest.raises(ConnectionBroken):
        await reply.read(1000)


async def test_an_answer_larger_than_wanted_is_an_error(server: Server) -> None:
    await server.start(lambda _: Response(200, b"x" * 1000))
    with pytest.raises(ConnectionBroken):
        await (await send_request(dial(server), get("/"), 5)).read(999)


async def test_an_upgraded_connection_is_the_askers(server: Server) -> None:
    def shout(request: Request) -> Answer:
        def start(transport: asyncio.Transport, rest: bytes) -> None:
            transport.write(b"early")

            class Shout(asyncio.Protocol):
                def data_received(self, data: bytes) -> None:
                    transport.write(data.upper())

            transport.set_protocol(Shout())

        return UpgradeResponse(start, UPGRADE)

    await server.start(shout)
    reply = await send_request(dial(server), get("/", UPGRADE), 5)
    assert reply.status == 101
    heard = asyncio.Queue[bytes]()

    class Listen(asyncio.Protocol):
        def data_received(self, data: bytes) -> None:
            heard.put_nowait(data)

    transport, rest = reply.detach()
    hand_over(transport, rest, Listen)
    transport.write(b"late")
    text = b""
    async with asyncio.timeout(5):
        while len(text) < 9:
            text += await heard.get()
    assert text == b"earlyLATE"
    transport.abort()


async def test_roles_can_be_turned_round(server: Server) -> None:
    """The client serves on the connection, as a node does at the end of its tunnel."""
    arrived = asyncio.get_running_loop().create_future()

    def tunnel(request: Request) -> Answer:
        return UpgradeResponse(lambda transport, rest: arrived.set_result((transport, rest)), UPGRADE)

    await server.start(tunnel)
    inner = Listener(lambda request: Response(200, request.path.encode(), "text/plain"), ListenerLimits())
    await inner.start([], 0, None)
    inner.adopt(*(await send_request(dial(server), get("/", UPGRADE), 5)).detach())

    async def over(factory: object) -> None:
        hand_over(*await arrived, factory)  # type: ignore[arg-type]  # pyright: ignore

    reply = await send_request(over, get("/from/outside", [("Connection", "close")]), 5)
    assert await reply.read(100) == b"/from/outside"
    await inner.stop(0.1)


async def test_refused_connections_raise_oserror(plain_server: Server) -> None:
    await plain_server.start(lambda _: Response(200))
    with pytest.raises(OSError, match="refused"):
        await send_request(tcp("127.0.0.1", 1), get("/"), 5)


async def test_servers_without_a_response_time_out(plain_server: Server) -> None:
    async def never(_: Request) -> Answer:
        await asyncio.sleep(100)
        raise AssertionError

    await plain_server.start(never)
    with pytest.raises(TimeoutError):
        await send_request(tcp("127.0.0.1", plain_server.port), get("/"), 0.1)


async def test_upgrades_without_a_client_are_abandoned(server: Server) -> None:
    """An upgrade that is ready when its client has gone must not leave the other end open."""
    abandoned, ready = asyncio.Event(), asyncio.Event()

    async def late(request: Request) -> Answer:
        await ready.wait()
        return UpgradeResponse(lambda _transport, _rest: None, UPGRADE, abandoned.set)

    await server.start(late)
    _, writer = await server.connect()
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: other\r\nContent-Length: 0\r\n\r\n")
    await asyncio.sleep(0.05)
    writer.transport.abort()
    await asyncio.sleep(0.05)
    ready.set()
    await asyncio.wait_for(abandoned.wait(), 5)


@pytest.mark.parametrize(
    "answer",
    [
        b"nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
        b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nfew",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"",
    ],
)
async def test_answers_that_are_none(answer: bytes) -> None:
    async def say(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(say, "127.0.0.1", 0)
    there = tcp("127.0.0.1", server.sockets[0].getsockname()[1])

    async def whole() -> bytes:
        return await (await send_request(there, get("/"), 5)).read(1000)

    with pytest.raises((ConnectionBroken, OSError)):
        await whole()
    server.close()


@given(st.binary(max_size=300))
def test_any_bytes_are_an_answer_or_none(data: bytes) -> None:
    async def feed() -> None:
        reply = StreamedReply()
        reply.connection_made(_Nowhere())
        reply.send(b"")
        reply.data_received(data)
        reply.connection_lost(None)
        with suppress(ConnectionBroken):
            await reply.head()
            await reply.next_chunk()

    asyncio.run(feed())


class _Nowhere(asyncio.Transport):
    def write(self, data: bytes | bytearray | memoryview) -> None:
        pass

    def is_closing(self) -> bool:
        return True

    def abort(self) -> None:
        pass

    def pause_reading(self) -> None:
        pass
