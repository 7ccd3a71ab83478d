"""One connection: calls to one peer, and whether it is still there.

What is to be sent is written once per turn of the loop, however many calls begin in it: a peer that gets them together
also works on them together.

With `keepalive`, a peer that is asked for something and says nothing for so many seconds is sent a PING; when it says
nothing to that either, the connection is given up. Nothing is sent while there is no call: servers take that for abuse.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncGenerator, Sequence
from typing import cast

from tarmac.http.grpc.calls import GrpcCall, prefixed
from tarmac.http.grpc.errors import Code, GrpcError, outcome
from tarmac.http.pacing import Paced
from tarmac.wire.http2 import Answered, Cut, Ended, Event, Received, Session
from tarmac.wire.violations import ProtocolViolation

LONGEST_MESSAGE = 32 << 20
_LONGEST_TIMEOUT = 99_999_999  # digits are counted
_PIECE = 64 * 1024  # a tenant's server that a probe asks may answer in frames of nine bytes
_PING_SECONDS = 5.0  # to answer one

Metadata = Sequence[tuple[str, str]]


class GrpcConnection(Paced):
    """Calls to one peer."""

    def __init__(
        self,
        authority: str,
        *,
        scheme: str = "http",
        longest_message: int = LONGEST_MESSAGE,
        keepalive: float | None = None,
    ) -> None:
        super().__init__(_PIECE)
        self.heard = 0
        """How often something came from the peer."""
        self._begins = ((":method", "POST"), (":scheme", scheme), (":authority", authority))
        self._longest = longest_message
        self._keepalive = keepalive
        self._session = Session()
        self._calls: dict[int, GrpcCall] = {}
        self._connected = False
        self._writing = False
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def usable(self) -> bool:
        """Whether new calls can be made."""
        return self._connected and not self._session.closing

    def close(self) -> None:
        """Hang up; calls under way fail."""
        if self._connected:
            self.transport.abort()

    async def call(
        self, method: str, message: bytes, timeout: float | None, metadata: Metadata = (), longest: int | None = None
    ) -> bytes:
        """One question, one answer, which may be limited more than others. Raises GrpcError."""
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
        """One question, and what comes for it until the peer ends it. Raises GrpcError.

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
        """A call of as many questions as one likes. Raises GrpcError; `cancel` it when done."""
        return GrpcStream(self, *self._begin(method, metadata))

    def ask(self, stream: int, message: bytes, last: bool) -> None:
        """One question of an open call."""
        self._session.send(stream, prefixed(message), end=last)
        self._flush()

    def cancel(self, stream: int) -> None:
        """Nobody waits for the call any longer."""
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
            headers = (*headers, ("grpc-timeout", f"{min(math.ceil(timeout), _LONGEST_TIMEOUT)}S"))
        stream = self._session.open(headers)
        call = self._calls[stream] = GrpcCall(self._longest if longest is None else longest, single=single)
        self._flush()
        return call, stream

    def _expire(self, stream: int) -> None:
        self._fail(stream, GrpcError(Code.DEADLINE_EXCEEDED, "deadline exceeded"))

    def _fail(self, stream: int, error: GrpcError) -> None:
        """There is no going on with it, at our end."""
        call = self._calls.get(stream)
        if call is not None:
            self.cancel(stream)
            call.end(error)

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._connected = True
        if self._keepalive is not None:
            self._look_later(self._keepalive, pinged=False)

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
        """The peer does not read: then we read no more of what makes us write."""
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
            case Received(stream, data):
                try:
                    call.received(data)
                except GrpcError as error:
                    self._fail(stream, error)
            case Answered(_, headers):
                call.headers = headers
            case Ended(stream):
                del self._calls[stream]
                call.end(outcome(call.headers))
            case Cut(stream, code):
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

    def _look_later(self, seconds: float, pinged: bool) -> None:
        loop = asyncio.get_running_loop()
        self._alarm = loop.call_later(seconds, self._look_whether_alive, self.heard, pinged)

    def _look_whether_alive(self, heard: int, pinged: bool) -> None:
        assert self._keepalive is not None
        if self.heard != heard or not self._calls:
            self._look_later(self._keepalive, pinged=False)
        elif pinged:
            self._lost(f"the peer does not answer a PING within {_PING_SECONDS:.0f} s")
        else:
            self._session.ping()
            self._flush()
            self._look_later(_PING_SECONDS, pinged=True)

    def _flush(self) -> None:
        if self._connected and not self._writing:
            self._writing = True
            asyncio.get_running_loop().call_soon(self._write)

    def _write(self) -> None:
        self._writing = False
        if self._connected and (data := self._session.take()):
            self.transport.write(data)


class GrpcStream:
    """A call of many questions and many answers."""

    def __init__(self, connection: GrpcConnection, call: GrpcCall, stream: int) -> None:
        self._connection = connection
        self._call = call
        self._stream = stream

    def ask(self, message: bytes, *, last: bool = False) -> None:
        """One question; nothing happens when the call is over."""
        self._connection.ask(self._stream, message, last)

    async def answers(self) -> list[bytes]:
        """What has come since the last time, one message at least; none once the peer is done. Raises GrpcError."""
        call = self._call
        while not call.messages and not call.over:
            await call.news()
        messages, call.messages = call.messages, []
        if not messages and call.error is not None:
            raise call.error
        return messages

    def cancel(self) -> None:
        """Nobody waits for answers any longer."""
        self._connection.cancel(self._stream)
