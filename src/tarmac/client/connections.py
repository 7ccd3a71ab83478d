"""HTTP/1.1 connections to one server, kept for the next request.

A connection carries one exchange at a time. A response that was read to its end leaves the connection for the next
request; an abandoned, broken or timed-out response closes its connection. A server may close an idle connection just as
a request is sent on it: such a request is sent again on a new one, but only if sending it twice is harmless.
"""

from __future__ import annotations

import asyncio
import ssl
import zlib
from collections.abc import AsyncIterator
from contextlib import suppress

from tarmac.client.errors import Disconnected, ServerUnreachable
from tarmac.http.responseprotocol import ResponseProtocol

CONNECT_TIMEOUT = 10.0
IDLE_TIMEOUT = 30.0
CLOSE_TIMEOUT = 2.0
_IDEMPOTENT = frozenset(("GET", "HEAD", "PUT", "DELETE", "OPTIONS"))
_GZIP = 31  # zlib's wbits for gzip


class ClientConnection(ResponseProtocol):
    """One connection. `send`, `head`, then `chunks` or `read`; a `reusable` connection may return to the pool.

    Its errors are Disconnected.
    """

    __slots__ = ("closed", "idle_since", "used")

    def __init__(self) -> None:
        super().__init__()
        self.closed = asyncio.get_running_loop().create_future()
        self.idle_since = 0.0
        self.used = False
        self._complete = True  # no exchange yet

    def send(self, request: bytes) -> None:
        """Start an exchange."""
        self.headers = {}
        self.untouched = True
        self._has_head = self._complete = False
        self._overhead = 0
        self._transport.write(request)

    @property
    def reusable(self) -> bool:
        """True if the response is read and the server accepts a further request."""
        return self._complete and not self._chunks and self._broken is None and not self._transport.is_closing()

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives. Raises Disconnected when it breaks off."""
        unzip = zlib.decompressobj(_GZIP) if self.headers.get("content-encoding") == "gzip" else None
        while True:
            while self._chunks:
                chunk = self._take()
                if unzip is not None:
                    chunk = unzip.decompress(chunk)  # may need more input to return anything
                if chunk:
                    yield chunk
            if self._complete:
                return
            await self._more()

    async def read(self) -> bytes:
        """Return the whole body. Raises Disconnected."""
        return b"".join([chunk async for chunk in self.chunks()])

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.closed.done():
            self.closed.set_result(None)
        super().connection_lost(exc)

    def on_message_complete(self) -> None:
        super().on_message_complete()
        if self._complete and not self._parser.should_keep_alive():
            self._transport.close()

    def _upgraded(self, rest: bytes) -> None:
        self._break(Disconnected("an upgrade that was not requested"))

    def _break(self, error: Exception) -> None:
        super()._break(error if isinstance(error, Disconnected) else Disconnected(str(error)))


class Connections:
    """The connections to one server, active and idle."""

    def __init__(self, host: str, port: int, tls: ssl.SSLContext | None, server_name: str | None) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._server_name = server_name
        self._idle: list[ClientConnection] = []
        self._open: set[ClientConnection] = set()
        self._is_closed = False

    async def exchange(self, method: str, request: bytes, connect_timeout: float = CONNECT_TIMEOUT) -> ClientConnection:
        """Send a request; await the head of its response. Raises Disconnected, ServerUnreachable (nothing sent).

        `connect_timeout` covers making a connection, its handshake included.
        """
        while True:
            connection = self._kept() or await self._connect(connect_timeout)
            connection.send(request)
            try:
                await connection.head()
            except Disconnected:
                self.drop(connection)
                if connection.used and connection.untouched and method in _IDEMPOTENT:
                    continue  # the server closed it before it saw the request
                raise
            except BaseException:
                self.drop(connection)
                raise
            return connection

    def give_back(self, connection: ClientConnection) -> None:
        """Return a connection whose response is read; it is kept if it can be reused."""
        if self._is_closed or not connection.reusable:
            self.drop(connection)
            return
        connection.used = True
        connection.idle_since = asyncio.get_running_loop().time()
        self._idle.append(connection)

    def drop(self, connection: ClientConnection) -> None:
        """Close a connection, even during an exchange."""
        connection.close()

    @property
    def in_use(self) -> bool:
        """True if any connection is open."""
        return bool(self._open)

    def close_idle(self) -> None:
        """Close the idle connections."""
        while self._idle:
            self._idle.pop().close()

    async def close(self) -> None:
        """Close all and wait for their sockets: a loop that ended before would leave them open."""
        self._is_closed = True
        self._idle.clear()
        leaving = list(self._open)
        for connection in leaving:
            connection.close()
        if leaving:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_TIMEOUT):
                    await asyncio.wait([connection.closed for connection in leaving])

    def _kept(self) -> ClientConnection | None:
        now = asyncio.get_running_loop().time()
        while self._idle:
            connection = self._idle.pop()
            if connection.reusable and now - connection.idle_since < IDLE_TIMEOUT:
                return connection
            connection.close()
        return None

    async def _connect(self, connect_timeout: float) -> ClientConnection:
        if self._is_closed:
            raise Disconnected("the transport is closed")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(connect_timeout):
                _, connection = await loop.create_connection(
                    ClientConnection,
                    self._host,
                    self._port,
                    ssl=self._tls,
                    server_hostname=self._server_name if self._tls else None,
                )
        except TimeoutError as error:  # from asyncio.timeout, or from the kernel
            raise ServerUnreachable(str(error) or f"no connection in {connect_timeout:.0f} s") from error
        except OSError as error:  # an aborted handshake has an empty message
            raise ServerUnreachable(str(error) or "the other side ended the connection during its handshake") from error
        self._open.add(connection)
        connection.closed.add_done_callback(lambda _: self._open.discard(connection))
        return connection
