"""Frames and messages, without any I/O.

Messages are passed on in parts as they arrive, so a message of any size needs no memory; only control frames, which are
short, are buffered. A client masks its frames and a server does not; each refuses the opposite.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from tarmac.base.randomness import Randomness
from tarmac.wire.violations import ProtocolViolation

_MAX_CONTROL = 125
_FIN = 0x80
_MASKED = 0x80


class Opcode(IntEnum):
    """Frame types."""

    CONTINUATION = 0x0
    TEXT = 0x1
    BINARY = 0x2
    CLOSE = 0x8
    PING = 0x9
    PONG = 0xA


_KNOWN = frozenset(Opcode)


class MessageChunk(NamedTuple):
    """A part of a message, cut anywhere. An empty message is one empty part, first and last."""

    data: bytes
    first: bool
    last: bool


class Pinged(NamedTuple):
    """A ping, already answered."""

    data: bytes


class Ponged(NamedTuple):
    """An answer to a ping."""

    data: bytes


class Closed(NamedTuple):
    """The peer closed; 1005 when it gave no code."""

    code: int
    reason: str


Event = MessageChunk | Pinged | Ponged | Closed


class Socket:
    """One side of a WebSocket after the handshake: the client if there is `masking`, the source of its masks."""

    def __init__(self, masking: Randomness | None = None) -> None:
        self._server = masking is None
        self._masking = masking
        self._buffer = bytearray()
        self._left = 0  # bytes of a data frame not yet received
        self._mask = b""
        self._first = True  # the next part begins a message
        self._fin = True  # the frame being read is the last of its message
        self._inside = False  # a message has begun and not ended
        self._closed = False
        self._out: list[bytes] = []

    def receive(self, data: bytes) -> list[Event]:
        """Return the events in these bytes. Raises ProtocolViolation."""
        events: list[Event] = []
        if self._closed:
            return events
        if self._left:  # the usual case in bulk transfers, without a copy into the buffer
            piece, data = data[: self._left], data[self._left :]
            events.append(self._piece(piece))
        if data:
            self._buffer += data
            events.extend(self._frames())
        return events

    def take(self) -> bytes:
        """Return the bytes to send, once."""
        out, self._out = self._out, []
        return out[0] if len(out) == 1 else b"".join(out)

    def send(self, *parts: bytes, text: bool = False) -> None:
        """Queue one message, joined from the parts."""
        self._frame(Opcode.TEXT if text else Opcode.BINARY, b"".join(parts))

    def ping(self, data: bytes = b"") -> None:
        """Queue a ping."""
        self._frame(Opcode.PING, data)

    def close(self, code: int = 1000, reason: str = "") -> None:
        """Queue a close frame; nothing may be sent afterwards."""
        self._frame(Opcode.CLOSE, struct.pack(">H", code) + reason.encode()[: _MAX_CONTROL - 2])

    # Sending.

    def _frame(self, opcode: Opcode, payload: bytes) -> None:
        length = len(payload)
        masked = 0 if self._masking is None else _MASKED
        if length < 126:
            head = struct.pack(">BB", _FIN | opcode, masked | length)
        elif length < 1 << 16:
            head = struct.pack(">BBH", _FIN | opcode, masked | 126, length)
        else:
            head = struct.pack(">BBQ", _FIN | opcode, masked | 127, length)
        if self._masking is not None:
            mask = self._masking.randbytes(4)
            head, payload = head + mask, _masked(payload, mask)
        self._out += (head, payload)

    # Receiving.

    def _frames(self) -> Iterator[Event]:
        while not self._closed and not self._left:
            head = self._head()
            if head is None:
                return
            opcode, fin, length, mask, size = head
            if opcode >= Opcode.CLOSE:
                if len(self._buffer) < size + length:
                    return
                payload = _masked(bytes(self._buffer[size : size + length]), mask)
                del self._buffer[: size + length]
                yield self._on_control(opcode, payload)
                continue
            self._begin(opcode, fin, length, mask)
            data = bytes(self._buffer[size : size + length])
            del self._buffer[: size + length]
            yield self._piece(data)

    def _head(self) -> tuple[int, bool, int, bytes, int] | None:
        """Parse opcode, FIN, length, mask and the size of the head; None when more bytes are needed."""
        buffer = self._buffer
        if len(buffer) < 2:
            return None
        opcode, length, size = buffer[0] & 0x0F, buffer[1] & 0x7F, 2
        if buffer[0] & 0x70 or opcode not in _KNOWN:
            raise ProtocolViolation(f"a frame of unknown kind {buffer[0]:#x}")
        if bool(buffer[1] & _MASKED) is not self._server:
            raise ProtocolViolation("frames of clients are masked, those of servers are not")
        extended = {126: 2, 127: 8}.get(length, 0)
        if opcode >= Opcode.CLOSE and (extended or not buffer[0] & _FIN):
            raise ProtocolViolation("a control frame that is long or in pieces")
        whole = size + extended + (4 if self._server else 0)
        if len(buffer) < whole:
            return None
        if extended:
            length = int.from_bytes(buffer[size : size + extended])
            if length >> 63:
                raise ProtocolViolation("a frame longer than frames can be")
        mask = bytes(buffer[whole - 4 : whole]) if self._server else b""
        return opcode, bool(buffer[0] & _FIN), length, mask, whole

    def _begin(self, opcode: int, fin: bool, length: int, mask: bytes) -> None:
        if (opcode == Opcode.CONTINUATION) is not self._inside:
            raise ProtocolViolation("a message that was not begun, or two at once")
        self._first = not self._inside
        self._left, self._fin, self._mask = length, fin, mask
        self._inside = True

    def _piece(self, data: bytes) -> MessageChunk:
        if self._mask:
            turn, mask = len(data) % 4, self._mask
            data, self._mask = _masked(data, mask), mask[turn:] + mask[:turn]
        self._left -= len(data)
        first, last = self._first, self._fin and not self._left
        self._first, self._inside = False, not last
        return MessageChunk(data, first, last)

    def _on_control(self, opcode: int, payload: bytes) -> Event:
        if opcode == Opcode.PING:
            self._frame(Opcode.PONG, payload)
            return Pinged(payload)
        if opcode == Opcode.PONG:
            return Ponged(payload)
        self._closed = True
        if not payload:
            return Closed(1005, "")
        if len(payload) == 1:
            raise ProtocolViolation("half a close code")
        return Closed(int.from_bytes(payload[:2]), payload[2:].decode(errors="replace"))


def _masked(data: bytes, mask: bytes) -> bytes:
    """Apply or remove a mask. One large integer is the fastest exclusive-or that Python has."""
    if not data or not mask:
        return data
    repeated = (mask * (len(data) // 4 + 1))[: len(data)]
    return (int.from_bytes(data) ^ int.from_bytes(repeated)).to_bytes(len(data))
