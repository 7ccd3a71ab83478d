"""One client connection: calls to one peer, and its liveness.

Pending data is written once per loop iteration, however many calls begin in it: a peer that gets them together also
handles them together.

With `keepalive`, a peer that has calls in progress and sends nothing for that many seconds is sent a PING; without an
answer the connection is closed. Nothing is sent while there is no call: servers treat that as abuse.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from typing import cast

from tarmac.http.grpc.calls import GrpcCall, prefixed
from tarmac.http.grpc.errors import Code, GrpcError, outcome
from tarmac.http.pacing import Paced
from tarmac.wire.http2 import DataReceived, Event, Http2ClientSession, ResponseReceived, StreamEnded, StreamReset
from tarmac.wire.violations import ProtocolViolation

MAX_MESSAGE = 32 << 20
_MAX_TIMEOUT = 99_999_999  # the format allows eight digits
_CHUNK_SIZE = 64 * 1024  # a tenant's server that a probe calls may respond in frames of nine bytes
_PING_TIMEOUT = 5.0  # to answer a PING

Metadata = Sequence[tuple[str, str]]


class GrpcConnection(Paced):
    """Calls to one peer."""

    def __init__(
        self,
        authority: str,
        *,
        scheme: str = "http",
        longest_message: int = MAX_MESSAGE,
        keepalive: float | None = None,
    ) -> None:
        super().__init__(_CHUNK_SIZE)
        self.heard = 0
        """Number of reads from the peer."""
        self._begins = ((":method", "POST"), (":scheme", scheme), (":authority", authority))
        self._longest = longest_message
        self._keepalive = keepalive
        self._session = Http2ClientSession()
        self._calls: dict[int, GrpcCall] = {}
        self._connected = False
        self._writing = False
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """True if new calls can be made."""
        return self._connected and not self._session.closing

    def close(self) -> None:
        """Close the connection; calls in progress fail."""
        if self._connected:
            self.transport.abort()

    async def call(
        self, method: str, message: bytes, timeout: float | None, metadata: Metadata = (), longest: int | None = None
    ) -> bytes:
        """Make a unary call; `longest` limits its response. Raises GrpcError."""
        call, stream = self._begin(method, metadata, timeout, longest, single=True)
        self._session.send(stream, prefixed(message), end=True)
        alarm = None
        if timeout is not None:
            alarm = asyncio.get_running_loop().call_later(timeout, self._expire, stream)
        try:
            while not call.over:
                await call.news()
        finally:
            if alarm is not None:
                alarm.cancel()
            self.cancel(stream)
        if call.error is not None:
            raise call.error
        if not call.messages:
            raise GrpcError(Code.INTERNAL, "no message in answer to a call")
        return call.messages[0]

    async def stream(
        self, method: str, message: bytes, metadata: Metadata = (), *, newest: bool = False
    ) -> AsyncGenerator[bytes]:
        """Make a server-streaming call, until the peer ends it. Raises GrpcError.

        `newest`: of messages that wait only the last is of interest.
        """
        stream = self.open(method, metadata)
        stream.ask(message, last=True)
        try:
            while messages := await stream.answers():
                for each in messages[-1:] if newest else messages:
                    yield each
        finally:
            stream.cancel()

    def open(self, method: str, metadata: Metadata = ()) -> GrpcStream:
        """Open a bidirectional call. Raises GrpcError; `cancel` it when done."""
        return GrpcStream(self, *self._begin(method, metadata))

    def ask(self, stream: int, message: bytes, last: bool) -> None:
        """Send one message of an open call."""
        self._session.send(stream, prefixed(message), end=last)
        self._flush()

    def cancel(self, stream: int) -> None:
        """Cancel the call."""
        if self._calls.pop(stream, None) is not None:
            self._session.cancel(stream)
            self._flush()
            self._close_if_done()

    def _begin(
        self,
        method: str,
        metadata: Metadata,
        timeout: float | None = None,
        longest: int | None = None,
        *,
        single: bool = False,
    ) -> tuple[GrpcCall, int]:
        if not self.usable:
            raise GrpcError(Code.UNAVAILABLE, "there is no connection")
        headers = (
            *self._begins,
            (":path", f"/{method}"),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            *metadata,
        )
        if timeout is not None:
            headers = (*headers, ("grpc-timeout", f"{min(math.ceil(timeout), _MAX_TIMEOUT)}S"))
        stream = self._session.open(headers)
        call = self._calls[stream] = GrpcCall(self._longest if longest is None else longest, single=single)
        self._flush()
        return call, stream

    def _expire(self, stream: int) -> None:
        self._fail(stream, GrpcError(Code.DEADLINE_EXCEEDED, "deadline exceeded"))

    def _fail(self, stream: int, error: GrpcError) -> None:
        """Fail a call from this side."""
        call = self._calls.get(stream)
        if call is not None:
            self.cancel(stream)
            call.end(error)

    # Called by the transport.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._connected = True
        if self._keepalive is not None:
            self._check_later(self._keepalive, pinged=False)

    def received(self, piece: bytes) -> None:
        self.heard += 1
        try:
            for event in self._session.receive(piece):
                self._on_event(event)
        except ProtocolViolation as violation:
            self._lost(f"the peer does not speak HTTP/2: {violation}")
            return
        self._flush()
        self._close_if_done()

    def pause_writing(self) -> None:
        """Pause reading while the peer does not read: its requests would make this side write more."""
        self.hold(True)

    def resume_writing(self) -> None:
        self.hold(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(f"the connection is lost: {exc or 'closed by the peer'}")

    def _on_event(self, event: Event) -> None:
        call = self._calls.get(event.stream)
        if call is None:
            return
        match event:
            case DataReceived(stream, data):
                try:
                    call.received(data)
                except GrpcError as error:
                    self._fail(stream, error)
            case ResponseReceived(_, headers):
                call.headers = headers
            case StreamEnded(stream):
                del self._calls[stream]
                call.end(outcome(call.headers))
            case StreamReset(stream, code):
                del self._calls[stream]
                call.end(GrpcError(Code.UNAVAILABLE, f"the peer cut the call off with HTTP/2 code {code}"))

    def _close_if_done(self) -> None:
        if self._session.closing and not self._calls:
            self.close()

    def _lost(self, why: str) -> None:
        self.close()
        self._connected = False
        if self._alarm is not None:
            self._alarm.cancel()
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.end(GrpcError(Code.UNAVAILABLE, why))

    def _check_later(self, seconds: float, pinged: bool) -> None:
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(seconds, self._check_alive, self.heard, pinged)

    def _check_alive(self, heard: int, pinged: bool) -> None:
        assert self._keepalive is not None
        if self.heard != heard or not self._calls:
            self._check_later(self._keepalive, pinged=False)
        elif pinged:
            self._lost(f"the peer does not answer a PING within {_PING_TIMEOUT:.0f} s")
        else:
            self._session.ping()
            self._flush()
            self._check_later(_PING_TIMEOUT, pinged=True)

    def _flush(self) -> None:
        if self._connected and not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        self._writing = False
        if self._connected and (data := self._session.take()):
            self.transport.write(data)


class GrpcStream:
    """A bidirectional streaming call."""

    def __init__(self, connection: GrpcConnection, call: GrpcCall, stream: int) -> None:
        self._connection = connection
        self._call = call
        self._stream = stream

    def ask(self, message: bytes, *, last: bool = False) -> None:
        """Send one message; ignored when the call has ended."""
        self._connection.ask(self._stream, message, last)

    async def answers(self) -> list[bytes]:
        """Return the messages since the last call, at least one; empty once the peer is done. Raises GrpcError."""
        call = self._call
        while not call.messages and not call.over:
            await call.news()
        messages, call.messages = call.messages, []
        if not messages and call.error is not None:
            raise call.error
        return messages

    def cancel(self) -> None:
        """Cancel the call."""
        self._connection.cancel(self._stream)
