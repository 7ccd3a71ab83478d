"""The received part of one call: its messages, cut out of the bytes of its stream, and its outcome."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Mapping

from tarmac.http.grpc.errors import Code, GrpcError, MessageTooLong

_PREFIX = struct.Struct(">BI")  # compressed flag and length


def prefixed(message: bytes) -> bytes:
    """Return a message as it is sent."""
    return _PREFIX.pack(0, len(message)) + message


class GrpcCall:
    """One call. `single`: it has one response, and the caller waits for its end."""

    __slots__ = ("_buffer", "_longest", "_single", "_waiter", "error", "headers", "messages", "over")

    def __init__(self, longest: int, *, single: bool) -> None:
        self.messages: list[bytes] = []
        self.headers: Mapping[str, str] = {}
        """The last headers received: finally the trailers."""
        self.error: GrpcError | None = None
        self.over = False
        self._longest = longest
        self._single = single
        self._buffer = bytearray()
        self._waiter: asyncio.Future[None] | None = None

    async def news(self) -> None:
        """Wait for the end, or for a message of a streaming call."""
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter

    def received(self, data: bytes) -> None:
        """Take bytes. Raises GrpcError when the call cannot continue."""
        if not self._buffer and (message := self._alone(data)) is not None:
            self._add(message)
            return
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _PREFIX.size:
            end = _PREFIX.size + self._length(buffer)
            if len(buffer) < end:
                return
            self._add(bytes(buffer[_PREFIX.size : end]))
            del buffer[:end]

    def end(self, error: GrpcError | None) -> None:
        """End the call."""
        if error is None and self._buffer:
            error = GrpcError(Code.INTERNAL, "the answer ends within a message")
        self.over, self.error = True, error
        self._wake()

    def _alone(self, data: bytes) -> bytes | None:
        """Return the message, if these bytes are exactly one: most responses are."""
        if len(data) < _PREFIX.size or _PREFIX.size + self._length(data) != len(data):
            return None
        return data[_PREFIX.size :]

    def _length(self, data: bytes | bytearray) -> int:
        compressed, length = _PREFIX.unpack_from(data)
        if compressed:
            raise GrpcError(Code.INTERNAL, "the response is compressed, which was not requested")
        if length > self._longest:
            raise MessageTooLong(length, self._longest)
        return length

    def _add(self, message: bytes) -> None:
        if self._single and self.messages:
            raise GrpcError(Code.INTERNAL, "more than one message in answer to a call")
        self.messages.append(message)
        if not self._single:
            self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
