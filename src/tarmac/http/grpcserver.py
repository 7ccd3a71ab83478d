"""A gRPC server for unary calls with small messages.

    await loop.create_unix_server(GrpcServer(answer, most=16).connection, path)

`answer(method, message)` returns the response or raises GrpcError. A connection may live `_MAX_AGE` seconds, and there
may be `most` of them, so that idle peers cannot keep other peers out: a peer with more calls dials again.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Awaitable, Callable
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


class GrpcServer:
    """Serves all peers; `close` ends all calls in progress."""

    def __init__(self, answer: Answer, most: int) -> None:
        self.tasks = Tasks()
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

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        if not self._server.came(self):
            self.transport.abort()
            return
        self._end = asyncio.get_running_loop().call_later(_MAX_AGE, self.transport.abort)
        self._flush()

    def received(self, piece: bytes) -> None:
        try:
            for asked in self._session.receive(piece):
                self._server.tasks.begin(self._serve(asked), "a gRPC call")
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

    async def _serve(self, asked: RequestReceived) -> None:
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
