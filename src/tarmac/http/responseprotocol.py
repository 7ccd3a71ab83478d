"""The only parser of HTTP responses: the base of every client's connection.

A subclass sends requests and calls `head`, then `next_chunk` until it returns b"". Interim responses (1xx) are skipped.
The server may be hostile, such as a pod that answers a probe: heads, trailers and chunk headers are limited to
`MAX_HEAD` bytes, a body is read only as fast as it is consumed, and bytes behind a complete response close the
connection.
"""

from __future__ import annotations

import asyncio
from typing import cast

import httptools

MAX_HEAD = 64 * 1024
"""A head of this size in bytes, the interim responses before it included, is too large."""

MAX_READ_AHEAD = 256 * 1024


class ConnectionBroken(Exception):
    """The connection broke, or the peer does not speak HTTP."""


class PeerClosed(ConnectionBroken):
    """The peer closed the connection before the end of its response."""


class ResponseProtocol(asyncio.Protocol):
    """Parses the responses of one connection. `status` and `headers` are set once `head` has returned.

    `lenient` accepts framing errors that Go's client accepts, such as lines without CR.
    """

    __slots__ = (
        "_broken",
        "_chunks",
        "_complete",
        "_has_head",
        "_overhead",
        "_parser",
        "_paused",
        "_rest",
        "_size",
        "_transport",
        "_waiting",
        "headers",
        "status",
        "untouched",
    )

    def __init__(self, lenient: bool = False) -> None:
        self.status = 0
        self.headers: dict[str, str] = {}  # by name in lower case, the first of each
        self.untouched = True  # no byte of the current response has arrived
        self._transport = cast("asyncio.Transport", None)
        self._parser = httptools.HttpResponseParser(self)
        if lenient:
            self._parser.set_dangerous_leniencies(lenient_optional_cr_before_lf=True, lenient_chunked_length=True)
        self._overhead = 0  # bytes received since the last head or body bytes
        self._chunks: list[bytes] = []
        self._size = 0
        self._paused = False
        self._has_head = False
        self._complete = False
        self._broken: Exception | None = None
        self._waiting: asyncio.Future[None] | None = None
        self._rest: bytes | None = None  # bytes received behind a 101

    def send(self, request: bytes) -> None:
        """Send a request. Its response may have arrived already: a server need not wait for a request."""
        self._transport.write(request)

    async def head(self) -> None:
        """Wait for the status and the headers. Raises ConnectionBroken."""
        while not self._has_head:
            await self._more()

    def header(self, name: str) -> str:
        """Return the first header of a name in lower case, or ""."""
        return self.headers.get(name, "")

    async def next_chunk(self) -> bytes:
        """Return the body bytes received since the last call, b"" at the end of the body. Raises ConnectionBroken."""
        while not self._chunks:
            if self._complete:
                return b""
            await self._more()
        return self._take()

    def _take(self) -> bytes:
        """Return the waiting body bytes, joined: a server that sends line by line would be read line by line."""
        chunks = self._chunks
        chunk = chunks[0] if len(chunks) == 1 else b"".join(chunks)
        chunks.clear()
        self._size = 0
        return chunk

    def close(self) -> None:
        """Close the connection: orderly when no response is in progress."""
        self._transport.close() if self._complete else self._transport.abort()

    def abort(self) -> None:
        """Close the connection at once, if it has been made."""
        if self._transport is not None:  # pyright: ignore[reportUnnecessaryComparison] - before `connection_made`
            self._transport.abort()

    async def _more(self) -> None:
        """Wait for data or the end of the connection."""
        if self._broken is not None:
            raise self._broken
        if self._paused and not self._transport.is_closing():
            self._transport.resume_reading()
        self._paused = False
        self._waiting = asyncio.get_running_loop().create_future()
        try:
            await self._waiting
        finally:
            self._waiting = None  # also when cancelled: the next `_wake` would set the result of an abandoned future

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self._rest is not None:  # arrives between 101 and the caller's `detach`
            self._rest += data
            return
        self.untouched = False
        if not self._has_head and len(data) > MAX_HEAD:  # else a head of any size that comes at once would be parsed
            self.data_received(data[:MAX_HEAD])
            if self._broken is None:
                self.data_received(data[MAX_HEAD:])
            return
        self._overhead += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._upgraded(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            self._break(ConnectionBroken(f"a malformed answer: {error}"))
        if self._overhead >= MAX_HEAD and not self._complete:
            self._break(ConnectionBroken(f"the head of the answer exceeded {MAX_HEAD} bytes"))
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._has_head and not self._complete and self._ends_with_connection():
            self._complete = True
        elif not self._complete:
            self._break(PeerClosed(f"the connection broke: {exc or 'closed by the server'}"))
        self._wake()

    def _ends_with_connection(self) -> bool:
        return not self.header("content-length") and "chunked" not in self.header("transfer-encoding").lower()

    # Called by the parser.

    def on_message_begin(self) -> None:
        if self._complete:  # unrequested: it would be taken for the response to the next request
            error = ConnectionBroken("bytes behind the end of an answer")
            self._break(error)
            raise error  # stops the parser: the body would join that of the response before

    def on_header(self, name: bytes, value: bytes) -> None:
        if not self._has_head:  # else a trailer
            self.headers.setdefault(name.decode("latin-1").lower(), value.decode("latin-1"))

    def on_headers_complete(self) -> None:
        self.status = self._parser.get_status_code()
        self._has_head = self.status >= 200  # the actual response follows interim ones
        if self._has_head:
            self._overhead = 0

    def on_body(self, data: bytes) -> None:
        self._overhead = 0
        self._chunks.append(data)
        self._size += len(data)
        if self._size > MAX_READ_AHEAD and not self._paused:
            self._paused = True
            self._transport.pause_reading()

    def on_message_complete(self) -> None:
        if self._has_head:
            self._complete = True
        elif self.status != 101:
            self._drop_head()

    def _drop_head(self) -> None:
        """Drop the headers of an interim response."""
        self.headers = {}

    def _upgraded(self, rest: bytes) -> None:
        """Take the bytes behind a 101; the connection is the caller's from now on."""
        self._rest = rest
        self._has_head = True

    def _break(self, error: Exception) -> None:
        """Close the connection; every later read fails with the first error."""
        self._broken = self._broken or error
        self._transport.abort()

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)
