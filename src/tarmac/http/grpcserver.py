"""A gRPC server for calls with small messages.

    await loop.create_unix_server(GrpcServer(answer, most=16).connection, path)

`answer(method, message)` returns the response or raises GrpcError. A connection may live `_MAX_AGE` seconds, and there
may be `most` of them, so that idle peers cannot keep other peers out: a peer with more calls dials again. A server with
`streams` also answers by several messages, so its connections live as long as their peer wants. `streams(method)`
returns them, or None for a unary call. A stream does not wait for the peer's window: it is for a few small messages.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import cast
from urllib.parse import quote

from tarmac.base.tasks import Tasks
from tarmac.http.grpc import Code, GrpcError
from tarmac.http.pacing import Paced
from tarmac.wire.http2 import Http2ServerSession, RequestReceived
from tarmac.wire.violations import ProtocolViolation

MAX_REQUEST = 16 * 1024
_MAX_AGE = 60.0
_PREFIX = struct.Struct(">BI")  # compressed flag and length
_HEADERS = ((":status", "200"), ("content-type", "application/grpc"))

Answer = Callable[[str, bytes], Awaitable[bytes]]
Streams = Callable[[str], AsyncGenerator[bytes] | None]


class GrpcServer:
    """Serves all peers; `close` ends all calls in progress."""

    def __init__(self, answer: Answer, most: int, streams: Streams | None = None) -> None:
        self.tasks = Tasks()
        self.streams = streams
        self._answer = answer
        self._most = most
        self._connections: set[GrpcServerConnection] = set()

    def connection(self) -> GrpcServerConnection:
        """Return a protocol for `create_unix_server`."""
        return GrpcServerConnection(self)

    async def close(self) -> None:
        """Close all connections."""
        for connection in list(self._connections):
            connection.transport.abort()
        await self.tasks.close()

    def came(self, connection: GrpcServerConnection) -> bool:
        """Register a connection; False if there are too many."""
        if len(self._connections) >= self._most:
            return False
        self._connections.add(connection)
        return True

    def left(self, connection: GrpcServerConnection) -> None:
        """Remove a closed connection."""
        self._connections.discard(connection)

    async def answer(self, asked: RequestReceived) -> bytes:
        """Handle one call. Raises GrpcError."""
        return await self._answer(asked.headers.get(":path", "").removeprefix("/"), _message(asked.body))


class GrpcServerConnection(Paced):
    """The connection of one peer."""

    def __init__(self, server: GrpcServer) -> None:
        super().__init__()
        self._server = server
        self._session = Http2ServerSession(MAX_REQUEST)
        self._end: asyncio.TimerHandle | None = None
        self._streaming: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if not self._server.came(self):
            self.transport.abort()
            return
        if self._server.streams is None:
            self._end = asyncio.get_running_loop().call_later(_MAX_AGE, self.transport.abort)
        self._flush()

    def received(self, piece: bytes) -> None:
        try:
            for asked in self._session.receive(piece):
                self._begin(asked)
        except ProtocolViolation:
            self.transport.abort()
            return
        self._flush()

    def pause_writing(self) -> None:
        """Pause reading while the peer does not read: its requests would make this side write more."""
        self.hold(True)

    def resume_writing(self) -> None:
        self.hold(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.left(self)
        if self._end is not None:
            self._end.cancel()
        for each in list(self._streaming):
            each.cancel()

    def _begin(self, asked: RequestReceived) -> None:
        method = asked.headers.get(":path", "").removeprefix("/")
        messages = self._server.streams(method) if self._server.streams is not None else None
        if messages is None:
            self._server.tasks.begin(self._answer(asked), "a gRPC call")
            return
        # Ended with the connection: a stream may have nothing to send for days.
        task = self._server.tasks.begin(self._stream(asked.stream, messages), "a gRPC stream")
        self._streaming.add(task)
        task.add_done_callback(self._streaming.discard)

    async def _stream(self, stream: int, messages: AsyncGenerator[bytes]) -> None:
        """Send messages until they end, or the peer is gone, which shows at the next message."""
        self._session.begin(stream, _HEADERS)
        async with aclosing(messages):
            async for message in messages:
                if self.transport.is_closing() or not self._session.is_open(stream):
                    return
                self._session.send(stream, _PREFIX.pack(0, len(message)) + message)
                self._flush()
        self._session.finish(stream, (("grpc-status", "0"),))
        self._flush()

    async def _answer(self, asked: RequestReceived) -> None:
        try:
            message = await self._server.answer(asked)
            body, trailers = _PREFIX.pack(0, len(message)) + message, (("grpc-status", "0"),)
        except GrpcError as error:
            body = b""
            trailers = (
                ("grpc-status", str(int(error.code))),
                ("grpc-message", quote(str(error), safe=" !\"#$&'()*+,-./:;<=>?@[]^_`{|}~")),
            )
        self._session.answer(asked.stream, _HEADERS, body, trailers)
        self._flush()

    def _flush(self) -> None:
        if not self.transport.is_closing() and (data := self._session.take()):
            self.transport.write(data)


def _message(body: bytes) -> bytes:
    """Return the one message of a request. Raises GrpcError."""
    if len(body) < _PREFIX.size:
        raise GrpcError(Code.INTERNAL, "no message in the call")
    compressed, length = _PREFIX.unpack_from(body)
    if compressed:
        raise GrpcError(Code.UNIMPLEMENTED, "compressed messages are not read")
    if len(body) != _PREFIX.size + length:
        raise GrpcError(Code.INTERNAL, "not one message in the call")
    return body[_PREFIX.size :]
