"""Frames of HTTP/2 as bytes: parses received frames, and builds those to send.

`MAX_FRAME` is the protocol's initial frame size limit, and no larger one is ever negotiated.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from functools import lru_cache
from typing import NamedTuple

from tarmac.wire.violations import ProtocolViolation

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
MAX_FRAME = 16_384
ACK = END_STREAM = 0x01
END_HEADERS = 0x04
PADDED = 0x08
PRIORITY = 0x20
_HEAD = struct.Struct(">HBBBI")  # the length takes three bytes


class FrameType(IntEnum):
    """Frame types. Unknown ones are skipped, as the protocol requires."""

    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PUSH_PROMISE = 5
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


class Setting(IntEnum):
    """Settings of a connection."""

    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4


class Frame(NamedTuple):
    """A complete frame."""

    type: int
    flags: int
    stream: int
    payload: bytes


class Http2FrameReader:
    """Bytes in, frames out."""

    __slots__ = ("_buffer",)

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> Iterator[Frame]:
        """Yield the frames that these bytes complete. Must be exhausted. Raises ProtocolViolation."""
        buffer = self._buffer
        buffer += data
        while len(buffer) >= _HEAD.size:
            high, low, kind, flags, stream = _HEAD.unpack_from(buffer)
            length = high << 8 | low
            if length > MAX_FRAME:
                raise ProtocolViolation(f"a frame of {length} bytes")
            end = _HEAD.size + length
            if len(buffer) < end:
                return
            payload = bytes(buffer[_HEAD.size : end])
            del buffer[:end]
            yield Frame(kind, flags, stream & 0x7FFFFFFF, payload)


def frame(type: FrameType, flags: int, stream: int, payload: bytes | memoryview = b"") -> bytes:
    """Return the bytes of a frame: its head of nine, and the payload."""
    length = len(payload)
    return _HEAD.pack(length >> 8, length & 0xFF, type, flags, stream) + payload


def without_padding(frame: Frame) -> bytes:
    """Return the payload of a data or headers frame without padding and priority. Raises ProtocolViolation."""
    payload = frame.payload
    if frame.flags & PADDED:
        if not payload or payload[0] >= len(payload):
            raise ProtocolViolation("more padding than frame")
        payload = payload[1 : len(payload) - payload[0]]
    return payload[5:] if frame.type == FrameType.HEADERS and frame.flags & PRIORITY else payload


@lru_cache(maxsize=128)
def literals(headers: tuple[tuple[str, str], ...]) -> bytes:
    """Encode headers as literals that enter no table. Cached: callers repeat the same few blocks."""
    return b"".join(b"\0" + _text(name) + _text(value) for name, value in headers)


def _text(value: str) -> bytes:
    """Encode a length-prefixed string; the length has a prefix of seven bits."""
    data = value.encode()
    if (rest := len(data) - 127) < 0:
        return bytes((len(data),)) + data
    length = bytearray(b"\x7f")
    while rest > 127:
        length.append(rest & 127 | 128)
        rest >>= 7
    length.append(rest)
    return bytes(length) + data
