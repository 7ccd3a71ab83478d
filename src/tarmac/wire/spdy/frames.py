"""Frames of SPDY/3.1 as bytes: parses received frames, and builds those to send.

Data is passed on as it arrives, without waiting for the end of its frame, so that a frame of 16 MiB costs no more
memory than one read. Control frames are buffered, up to `MAX_CONTROL`.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from enum import IntEnum
from typing import NamedTuple

from tarmac.wire.violations import ProtocolViolation

VERSION = 3
MAX_CONTROL = 16 * 1024
MAX_DATA = (1 << 24) - 1
FIN = 0x01
UNIDIRECTIONAL = 0x02
_HEAD = struct.Struct(">II")


class ControlFrameType(IntEnum):
    """Control frame types. Unknown ones are skipped, as the protocol requires."""

    SYN_STREAM = 1
    SYN_REPLY = 2
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    HEADERS = 8
    WINDOW_UPDATE = 9


class Reset(IntEnum):
    """Reasons for a reset."""

    PROTOCOL_ERROR = 1
    INVALID_STREAM = 2
    REFUSED_STREAM = 3
    UNSUPPORTED_VERSION = 4
    CANCEL = 5
    INTERNAL_ERROR = 6


class Control(NamedTuple):
    """A complete control frame."""

    type: int
    flags: int
    payload: bytes


class Data(NamedTuple):
    """A part of a data frame; `fin` is true only for the last part of the last frame of a stream."""

    stream: int
    data: bytes
    fin: bool


class SpdyFrameReader:
    """Bytes in, frames out."""

    __slots__ = ("_buffer", "_fin", "_left", "_stream")

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._left = 0  # bytes of a data frame not yet received
        self._stream = 0
        self._fin = False

    def feed(self, data: bytes) -> Iterator[Control | Data]:
        """Yield the frames that these bytes complete. Must be exhausted. Raises ProtocolViolation."""
        if self._left:  # the usual case in bulk transfers, without a copy into the buffer
            piece, data = data[: self._left], data[self._left :]
            yield self._piece(piece)
        if not data:
            return
        self._buffer += data
        yield from self._frames()

    def _frames(self) -> Iterator[Control | Data]:
        buffer = self._buffer
        while len(buffer) >= _HEAD.size:
            first, second = _HEAD.unpack_from(buffer)
            flags, length = second >> 24, second & MAX_DATA
            if first >> 31:
                if not self._is_whole(first, length):
                    return
                payload = bytes(buffer[_HEAD.size : _HEAD.size + length])
                del buffer[: _HEAD.size + length]
                yield Control(first & 0xFFFF, flags, payload)
                continue
            self._stream, self._left, self._fin = first, length, bool(flags & FIN)
            piece = bytes(buffer[_HEAD.size : _HEAD.size + length])
            del buffer[: _HEAD.size + length]
            yield self._piece(piece)
            if self._left:
                return

    def _is_whole(self, first: int, length: int) -> bool:
        version = first >> 16 & 0x7FFF
        if version != VERSION:
            raise ProtocolViolation(f"SPDY version {version}, not {VERSION}")
        if length > MAX_CONTROL:
            raise ProtocolViolation(f"a control frame of {length} bytes")
        return len(self._buffer) >= _HEAD.size + length

    def _piece(self, data: bytes) -> Data:
        self._left -= len(data)
        return Data(self._stream, data, self._fin and not self._left)


def control_frame(type: ControlFrameType, payload: bytes, flags: int = 0) -> bytes:
    """Return the bytes of a control frame: its head of eight, and the payload."""
    return _HEAD.pack(0x80000000 | VERSION << 16 | type, flags << 24 | len(payload)) + payload


def data_head(stream: int, length: int, fin: bool) -> bytes:
    """Return the head of a data frame."""
    return _HEAD.pack(stream, (FIN << 24 if fin else 0) | length)
