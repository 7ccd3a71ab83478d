"""The HTTP client: one request on its own connection, which may be upgraded to a different protocol.

    reply = await send_request(dial, head, timeout=30)
    async for chunk in reply.chunks(): ...        # an ordinary response, read with flow control
    transport, rest = reply.detach()              # after 101: the caller owns the connection

A `Dial` makes the connection: TCP, TLS, or a tunnel. No connection is kept for a second request, so nothing can be left
over from a first one.
"""

from __future__ import annotations

import asyncio
import ssl
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import cast

import httptools

from tarmac.http.responseheads import encode_headers
from tarmac.http.sockets import enable_keepalive

Dial = Callable[[Callable[[], asyncio.Protocol]], Awaitable[object]]
"""Connects a protocol, as the loop's `create_connection` does. Raises OSError."""

_MAX_HEAD = 64 * 1024
_MAX_READ_AHEAD = 256 * 1024


class ConnectionBroken(Exception):
    """The connection broke, or the peer does not speak HTTP."""


class StreamedReply(asyncio.Protocol):
    """A response in progress. `status` and `headers` are set once `send_request` has returned it."""

    def __init__(self) -> None:
        self.status = 0
        self.headers: list[tuple[str, str]] = []
        self._transport = cast("asyncio.Transport", None)
        self._parser = httptools.HttpResponseParser(self)
        self._head: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._head_size = 0
        self._chunks: deque[bytes] = deque()
        self._size = 0
        self._paused = False
        self._complete = False
        self._broken: ConnectionBroken | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._rest: bytes | None = None  # bytes received behind a 101

    async def head(self) -> None:
        """Wait for the status and the headers. Raises ConnectionBroken."""
        await self._head

    def header(self, name: str) -> str:
        """Return the first header of a name in lower case, or ""."""
        return next((value for key, value in self.headers if key.lower() == name), "")

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body, then close the connection. Raises ConnectionBroken when it breaks off."""
        try:
            while True:
                while self._chunks:
                    chunk = self._chunks.popleft()
                    self._size -= len(chunk)
                    yield chunk
                if self._broken is not None:
                    raise self._broken
                if self._complete:
                    return
                self._resume()
                self._waiting = asyncio.get_running_loop().create_future()
                await self._waiting
        finally:
            self.close()

    async def read(self, limit: int) -> bytes:
        """Return the whole body. Raises ConnectionBroken, also when it is larger than `limit`."""
        parts: list[bytes] = []
        size = 0
        async for chunk in self.chunks():
            size += len(chunk)
            if size > limit:
                raise ConnectionBroken(f"an answer of more than {limit} bytes")
            parts.append(chunk)
        return b"".join(parts)

    def detach(self) -> tuple[asyncio.Transport, bytes]:
        """Return the connection after 101, and the bytes received behind it so far. Set a new protocol at once."""
        assert self._rest is not None
        return self._transport, self._rest

    def close(self) -> None:
        """Close the connection."""
        self._transport.abort() if not self._complete else self._transport.close()

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._rest is not None:
            self._rest += data
            return
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._rest = data[upgrade.args[0] :]
            self._wake_head()
        except httptools.HttpParserError as error:
            self._break(ConnectionBroken(f"a malformed answer: {error}"))
        if not self._head.done():
            self._head_size += len(data)
            if self._head_size > _MAX_HEAD:
                self._break(ConnectionBroken(f"a head of more than {_MAX_HEAD} bytes"))

    def connection_lost(self, exc: Exception | None) -> None:
        if self._head.done() and not self._complete and self._ends_with_connection():
            self._complete = True
        if not self._complete and self._broken is None:
            self._break(ConnectionBroken(f"the connection broke: {exc or 'closed by the other side'}"))
        self._wake()

    def _ends_with_connection(self) -> bool:
        return not self.header("content-length") and "chunked" not in self.header("transfer-encoding").lower()

    # Called by the parser.

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.decode("latin-1"), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        if self.status != 101:
            self._wake_head()

    def on_body(self, data: bytes) -> None:
        self._chunks.append(data)
        self._size += len(data)
        if self._size > _MAX_READ_AHEAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()
        self._wake()

    def on_message_complete(self) -> None:
        if self.status != 101:
            self._complete = True
            self._wake()

    def _resume(self) -> None:
        if self._paused and not self._transport.is_closing():
            self._transport.resume_reading()
        self._paused = False

    def _break(self, error: ConnectionBroken) -> None:
        self._broken = error
        if not self._head.done():
            self._head.set_exception(error)
        self._transport.abort()
        self._wake()

    def _wake_head(self) -> None:
        if not self._head.done():
            self._head.set_result(None)

    def _wake(self) -> None:
        waiting, self._waiting = self._waiting, None
        if waiting is not None and not waiting.done():
            waiting.set_result(None)


def tcp(host: str, port: int, tls: ssl.SSLContext | None = None, name: str | None = None) -> Dial:
    """A connection over TCP, with TLS if a context is given; `name` is the one to verify, if it is not the host's."""

    async def dial(factory: Callable[[], asyncio.Protocol]) -> None:
        loop = asyncio.get_running_loop()
        transport, _ = await loop.create_connection(factory, host, port, ssl=tls, server_hostname=name if tls else None)
        enable_keepalive(transport.get_extra_info("socket"))

    return dial


def hand_over(transport: asyncio.Transport, rest: bytes, factory: Callable[[], asyncio.Protocol]) -> None:
    """Attach a new protocol to an existing connection, with the bytes received on it already; for a `Dial`."""
    protocol = factory()
    transport.set_protocol(protocol)
    protocol.connection_made(transport)
    if rest:
        protocol.data_received(rest)


def request_head(method: str, target: str, host: str, headers: Sequence[tuple[str, str]] = ()) -> bytes:
    """Return a request without a body, or the head of one with a body."""
    return f"{method} {target} HTTP/1.1\r\n".encode() + encode_headers([("Host", host), *headers]) + b"\r\n"


async def send_request(dial: Dial, request: bytes, timeout: float) -> StreamedReply:
    """Connect, send, and wait for the head of the response.

    Raises OSError (TimeoutError included), ConnectionBroken.
    """
    reply = StreamedReply()
    try:
        async with asyncio.timeout(timeout):
            await dial(lambda: reply)
            reply._transport.write(request)
            await reply.head()
    except BaseException:
        if reply._transport is not None:  # pyright: ignore[reportUnnecessaryComparison] - not yet connected
            reply._transport.abort()
        reply._head.cancel()
        if not reply._head.cancelled():
            reply._head.exception()  # retrieved, or asyncio logs it: a failed handshake breaks the head, too
        raise
    return reply
