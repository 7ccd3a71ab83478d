"""gRPC, the asking side: calls over one connection, their deadlines, and what became of them.

    _, connection = await loop.create_unix_connection(lambda: GrpcConnection("localhost"), path)
    answer = await connection.call("package.Service/Method", message, timeout=5)

Messages are bytes; what they mean is the caller's affair. A call that is cancelled, or takes too long, is cancelled at
the other end as well. A connection that is lost fails every call on it as UNAVAILABLE and stays lost.
"""

from __future__ import annotations

import asyncio
import math
import struct
from collections import deque
from collections.abc import AsyncGenerator, Mapping, Sequence
from enum import IntEnum
from typing import cast
from urllib.parse import unquote

from tarmac.base.digits import whole
from tarmac.http.pacing import Paced
from tarmac.wire.http2 import Answered, Cut, Ended, Event, Received, Session
from tarmac.wire.violations import ProtocolViolation

LONGEST_MESSAGE = 32 << 20
_LONGEST_TIMEOUT = 99_999_999  # digits are counted
_PIECE = 64 * 1024  # a tenant's server that a probe asks may answer in frames of nine bytes
_PREFIX = struct.Struct(">BI")  # whether it is compressed, and its length

Metadata = Sequence[tuple[str, str]]


class Code(IntEnum):
    """Why a call failed, as far as anybody asks. Others have a number only."""

    UNKNOWN = 2
    CANCELLED = 1
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    RESOURCE_EXHAUSTED = 8
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14


class GrpcError(Exception):
    """A call failed. The text is the peer's, if it gave one."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message or f"gRPC status {code}")
        self.code = code


class _Call:
    """What has come of one call."""

    __slots__ = ("_buffer", "_longest", "_single", "_waiter", "error", "headers", "messages", "over")

    def __init__(self, longest: int, single: bool) -> None:
        self.messages: deque[bytes] = deque()
        self.headers: Mapping[str, str] = {}
        """The last that came: the trailers, in the end."""
        self.error: GrpcError | None = None
        self.over = False
        self._longest = longest
        self._single = single
        self._buffer = bytearray()
        self._waiter: asyncio.Future[None] | None = None

    async def news(self) -> None:
        """Wait for a message, or the end."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def received(self, data: bytes) -> None:
        """Raises GrpcError when there is no going on."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _PREFIX.size:
            compressed, length = _PREFIX.unpack_from(buffer)
            if compressed:
                raise GrpcError(Code.INTERNAL, "the answer is compressed, which nobody asked for")
            if length > self._longest:
                raise GrpcError(Code.RESOURCE_EXHAUSTED, f"a message of {length} bytes; {self._longest} are read")
            end = _PREFIX.size + length
            if len(buffer) < end:
                return
            if self._single and self.messages:
                raise GrpcError(Code.INTERNAL, "more than one message in answer to a call")
            self.messages.append(bytes(buffer[_PREFIX.size : end]))
            del buffer[:end]
            self._wake()

    def end(self, error: GrpcError | None) -> None:
        """Nothing more will come."""
        self.over, self.error = True, error
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


class GrpcConnection(Paced):
    """Calls to one peer."""

    def __init__(self, authority: str, *, longest_message: int = LONGEST_MESSAGE) -> None:
        super().__init__(_PIECE)
        self._authority = authority
        self._longest = longest_message
        self._session = Session()
        self._calls: dict[int, _Call] = {}
        self._connected = False

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
        call, stream = self._begin(method, message, metadata, timeout, longest, single=True)
        try:
            async with asyncio.timeout(timeout):
                while not call.over:
                    await call.news()
        except TimeoutError as error:
            raise GrpcError(Code.DEADLINE_EXCEEDED, "deadline exceeded") from error
        finally:
            self._leave(stream)
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
        call, stream = self._begin(method, message, metadata)
        try:
            while True:
                while call.messages:
                    if newest:
                        call.messages = deque((call.messages[-1],))
                    yield call.messages.popleft()
                if call.over:
                    break
                await call.news()
        finally:
            self._leave(stream)
        if call.error is not None:
            raise call.error

    def _begin(
        self,
        method: str,
        message: bytes,
        metadata: Metadata,
        timeout: float | None = None,
        longest: int | None = None,
        *,
        single: bool = False,
    ) -> tuple[_Call, int]:
        if not self.usable:
            raise GrpcError(Code.UNAVAILABLE, "there is no connection")
        headers = (
            (":method", "POST"),
            (":scheme", "http"),
            (":path", f"/{method}"),
            (":authority", self._authority),
            ("content-type", "application/grpc"),
            ("te", "trailers"),
            *metadata,
        )
        if timeout is not None:
            headers = (*headers, ("grpc-timeout", f"{min(math.ceil(timeout), _LONGEST_TIMEOUT)}S"))
        stream = self._session.request(headers, _PREFIX.pack(0, len(message)) + message)
        call = self._calls[stream] = _Call(self._longest if longest is None else longest, single)
        self._flush()
        return call, stream

    def _leave(self, stream: int) -> None:
        """Nobody waits for the call any longer."""
        if self._calls.pop(stream, None) is not None:
            self._session.cancel(stream)
            self._flush()

    # What the transport calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._connected = True

    def received(self, piece: bytes) -> None:
        try:
            for event in self._session.receive(piece):
                self._heard(event)
        except ProtocolViolation as violation:
            self._lost(f"the peer does not speak HTTP/2: {violation}")
            return
        self._flush()
        if self._session.closing and not self._calls:
            self.close()

    def pause_writing(self) -> None:
        """The peer does not read: then we read no more of what makes us write."""
        self.hold(True)

    def resume_writing(self) -> None:
        self.hold(False)

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost(f"the connection is lost: {exc or 'closed by the peer'}")

    def _heard(self, event: Event) -> None:
        call = self._calls.get(event.stream)
        if call is None:
            return
        match event:
            case Received(stream, data):
                try:
                    call.received(data)
                except GrpcError as error:
                    self._leave(stream)
                    call.end(error)
            case Answered(_, headers):
                call.headers = headers
            case Ended(stream):
                del self._calls[stream]
                call.end(_outcome(call.headers))
            case Cut(stream, code):
                del self._calls[stream]
                call.end(GrpcError(Code.UNAVAILABLE, f"the peer cut the call off with HTTP/2 code {code}"))

    def _lost(self, why: str) -> None:
        self.close()
        self._connected = False
        calls, self._calls = self._calls, {}
        for call in calls.values():
            call.end(GrpcError(Code.UNAVAILABLE, why))

    def _flush(self) -> None:
        if self._connected and (data := self._session.take()):
            self.transport.write(data)


def _outcome(headers: Mapping[str, str]) -> GrpcError | None:
    """What the last headers say became of a call."""
    status = headers.get("grpc-status", "")
    if status == "0":
        return None
    code = whole(status, 1 << 31)
    if code is None:
        return GrpcError(Code.UNKNOWN, f"an answer without gRPC's status, HTTP status {headers.get(':status')}")
    return GrpcError(code, unquote(headers.get("grpc-message", "")))
