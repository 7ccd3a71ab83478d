"""Handing a connection over to another protocol."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tarmac.http.messages import Answer, Request, Response, UpgradeResponse
from tests.http.conftest import Server, read_answer

ASK = b"GET /exec HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: shout\r\n\r\n"


class Shout(asyncio.Protocol):
    """The other protocol: echoes input in capitals."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data.upper())


def take_over(transport: asyncio.Transport, rest: bytes) -> None:
    protocol = Shout(transport)
    transport.set_protocol(protocol)
    protocol.data_received(rest)


def handler(request: Request) -> Answer:
    if request.path == "/exec":
        return UpgradeResponse(take_over, [("Connection", "Upgrade"), ("Upgrade", "shout")])
    return Response(403, b"no")


async def test_the_new_owner_gets_the_connection_and_what_came_with_the_request(server: Server) -> None:
    await server.start(handler)
    reader, writer = await server.connect()
    writer.write(ASK + b"early ")
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 101 Switching Protocols\r\n")
    assert b"Upgrade: shout\r\n" in head
    assert b"Content-Length" not in head
    writer.write(b"late")
    assert await reader.readexactly(10) == b"EARLY LATE"


async def test_bytes_that_come_while_the_handler_decides_are_kept(server: Server) -> None:
    async def later(request: Request) -> Answer:
        await asyncio.sleep(0.05)
        return handler(request)

    await server.start(later)
    reader, writer = await server.connect()
    writer.write(ASK)
    await asyncio.sleep(0.01)
    writer.write(b"early")
    await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(5) == b"EARLY"


async def test_while_the_handler_decides_no_more_is_taken_than_a_head_may_have(server: Server) -> None:
    decided, held = asyncio.Event(), 0

    def measured(transport: asyncio.Transport, rest: bytes) -> None:
        nonlocal held
        held = len(rest)
        take_over(transport, rest)

    async def later(request: Request) -> Answer:
        await decided.wait()
        return UpgradeResponse(measured, [("Connection", "Upgrade"), ("Upgrade", "shout")])

    await server.start(later)
    reader, writer = await server.connect()
    writer.write(ASK)
    flood = b"x" * (16 << 20)
    writer.write(flood)
    with suppress(TimeoutError):
        async with asyncio.timeout(0.5):
            await writer.drain()
    decided.set()
    await reader.readuntil(b"\r\n\r\n")
    assert await reader.readexactly(len(flood)) == flood.upper()
    assert held < 1 << 20


async def test_a_refused_upgrade_is_an_ordinary_last_answer(server: Server) -> None:
    await server.start(handler)
    reader, writer = await server.connect()
    writer.write(ASK.replace(b"/exec", b"/other") + b"GET /smuggled HTTP/1.1\r\nHost: x\r\n\r\n")
    status, headers, body = await read_answer(reader)
    assert (status, body, headers["connection"]) == (403, b"no", "close")
    assert await reader.read() == b""


async def test_stopping_ends_handed_over_connections_too(server: Server) -> None:
    listener = await server.start(handler)
    reader, writer = await server.connect()
    writer.write(ASK)
    await reader.readuntil(b"\r\n\r\n")
    await listener.stop(grace=0.1)
    with suppress(ConnectionError):
        assert await reader.read() == b""
