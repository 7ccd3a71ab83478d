"""A SPDY client for tests: upgrades, opens streams and collects their data."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from tarmac.wire.spdy import GoneAway, SpdySession, StreamData, StreamFinished, StreamReplied


class SpdyClient:
    """One connection; `raw` dials and upgrades."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer
        self.session = SpdySession(server=False)
        self.heard: dict[int, bytes] = {}
        self.finished: dict[int, bool] = {}  # stream -> whether it was reset
        self.replied: set[int] = set()
        self.gone_away = False
        self.head = b""

    @classmethod
    async def raw(cls, port: int, path: str, version: str) -> SpdyClient:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(
            f"POST {path} HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n"
            f"X-Stream-Protocol-Version: {version}\r\nContent-Length: 0\r\n\r\n".encode()
        )
        client = cls(reader, writer)
        client.head = await reader.readuntil(b"\r\n\r\n")
        return client

    async def open(self, headers: Mapping[str, str]) -> int:
        stream = self.session.open(headers)
        self.heard[stream] = b""
        self.flush()
        async with asyncio.timeout(5):
            while stream not in self.replied and stream not in self.finished:
                await self.receive()
        return stream

    def send(self, stream: int, data: bytes, fin: bool = False) -> None:
        self.session.send(stream, data, fin)
        self.flush()

    def flush(self) -> None:
        self.writer.write(self.session.take())

    async def receive(self) -> bool:
        data = await self.reader.read(65536)
        for event in self.session.receive(data):
            if isinstance(event, StreamReplied):
                self.replied.add(event.stream)
            elif isinstance(event, StreamData):
                self.heard[event.stream] += event.data
            elif isinstance(event, StreamFinished):
                self.finished[event.stream] = event.reset
            elif isinstance(event, GoneAway):
                self.gone_away = True
        self.flush()
        return bool(data)

    async def until_finished(self, *streams: int) -> None:
        async with asyncio.timeout(10):
            while not set(streams) <= set(self.finished) and await self.receive():
                pass

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()
