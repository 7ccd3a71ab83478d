"""Two connections made into one."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.http import splicing
from tarmac.http.clientrequest import request_head, send_request, tcp
from tarmac.http.messages import Answer, Request, UpgradeResponse
from tarmac.http.splicing import splice
from tests.http.conftest import Server

UPGRADE = [("Connection", "Upgrade"), ("Upgrade", "raw")]
ASK = b"GET / HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\n"


class Far:
    """The far end of the splice: a plain server that upgrades and then follows the test."""

    def __init__(self) -> None:
        self.reader: asyncio.StreamReader
        self.writer: asyncio.StreamWriter
        self.there = asyncio.Event()

    async def start(self) -> int:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self._server.sockets[0].getsockname()[1]

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: raw\r\n\r\nfirst ")
        self.reader, self.writer = reader, writer
        self.there.set()

    def close(self) -> None:
        self._server.close()
        if self.there.is_set():
            self.writer.transport.abort()


async def spliced(server: Server, idle: float = 60.0) -> tuple[Far, asyncio.StreamReader, asyncio.StreamWriter]:
    far = Far()
    port = await far.start()

    async def through(request: Request) -> Answer:
        reply = await send_request(tcp("127.0.0.1", port), request_head("GET", "/", "x", UPGRADE), 5)
        return UpgradeResponse(lambda client, rest: splice((client, rest), reply.detach(), idle), UPGRADE, reply.close)

    await server.start(through)
    reader, writer = await server.connect()
    writer.write(ASK)
    await reader.readuntil(b"\r\n\r\n")
    await far.there.wait()
    return far, reader, writer


async def test_bytes_pass_both_ways(server: Server) -> None:
    far, reader, writer = await spliced(server)
    writer.write(b"ping")
    assert await far.reader.readexactly(4) == b"ping"
    far.writer.write(b"pong")
    assert await reader.readexactly(10) == b"first pong"
    far.close()


async def test_data_sent_before_a_close_still_arrives(server: Server) -> None:
    far, reader, _ = await spliced(server)
    data = b"z" * 3_000_000
    far.writer.write(data)
    await asyncio.sleep(0)
    far.writer.close()
    received = b""
    async with asyncio.timeout(10):
        while chunk := await reader.read(65536):
            received += chunk
    assert received == b"first " + data
    far.close()


async def test_either_end_takes_the_other_with_it(server: Server) -> None:
    far, _, writer = await spliced(server)
    writer.transport.abort()
    async with asyncio.timeout(5):
        assert await far.reader.read() == b""
    far.close()


async def test_an_end_that_does_not_read_stops_the_other(server: Server) -> None:
    far, reader, _ = await spliced(server)
    total = 64 * 1024 * 1024
    sent = 0

    async def pour() -> None:
        nonlocal sent
        while sent < total:
            far.writer.write(b"x" * 65536)
            await far.writer.drain()
            sent += 65536

    pouring = asyncio.ensure_future(pour())
    await asyncio.sleep(0.5)
    before = sent
    await asyncio.sleep(0.2)
    assert sent == before < total
    assert max(each.get_write_buffer_size() for each in server.listeners[-1].upgraded) < 2_000_000
    size = 0
    async with asyncio.timeout(20):
        while size < total:
            size += len(await reader.read(1 << 20))
        await pouring
    far.close()


async def test_nothing_moving_ends_both(server: Server) -> None:
    far, reader, _ = await spliced(server, idle=0.1)
    async with asyncio.timeout(5):
        assert await reader.read() == b"first "
        assert await far.reader.read() == b""
    far.close()


class Stuck(asyncio.Transport):
    """A connection whose peer reads nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.ends: list[str] = []
        self.protocol: asyncio.BaseProtocol = asyncio.Protocol()

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def is_closing(self) -> bool:
        return bool(self.ends)

    def close(self) -> None:
        self.ends.append("closed")

    def abort(self) -> None:
        self.ends.append("aborted")


async def test_an_end_that_never_takes_its_last_bytes_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(splicing, "CLOSE_TIMEOUT", 0.05)
    gone, stuck = Stuck(), Stuck()
    splice((gone, b""), (stuck, b""))
    gone.protocol.connection_lost(None)
    assert stuck.ends == ["closed"]
    await asyncio.sleep(0.1)
    assert stuck.ends == ["closed", "aborted"]
