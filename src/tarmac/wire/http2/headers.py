"""Header blocks of one connection, decoded in order.

A block may be split over several frames, with no other frame in between. A peer repeats the same few headers: once they
are in the shared table, a block is a few bytes of indexes into it. Such a block has the same meaning until a later
block changes the table, so it is decoded once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import hpack

from tarmac.wire.http2.frames import END_HEADERS, END_STREAM, Frame, FrameType, without_padding
from tarmac.wire.violations import ProtocolViolation

_MAX_CACHED = 64  # cached blocks
_MAX_BLOCK = 64 * 1024


class Block(NamedTuple):
    """A complete header block. `last`: nothing follows on its stream."""

    stream: int
    last: bool
    headers: Mapping[str, str]


class HeaderReader:
    """Decodes blocks. All of them have to be decoded, wanted or not: later ones refer to earlier ones."""

    def __init__(self, largest: int = _MAX_BLOCK) -> None:
        self._largest = largest
        self._decoder = hpack.Decoder()
        self._known: dict[bytes, Mapping[str, str]] = {}
        self._begun: tuple[Frame, bytearray] | None = None  # incomplete block

    def check(self, kind: int) -> None:
        """Check that a frame of this type is allowed now. Raises ProtocolViolation."""
        if (self._begun is not None) != (kind == FrameType.CONTINUATION):
            raise ProtocolViolation("headers and what continues them do not follow each other")

    def feed(self, frame: Frame) -> Block | None:
        """Take a HEADERS or CONTINUATION frame; returns the block if that completes it. Raises ProtocolViolation."""
        if self._begun is None:
            begun, block = frame, bytearray(without_padding(frame))
        else:
            begun, block = self._begun
            if frame.stream != begun.stream:
                raise ProtocolViolation("headers are continued on another stream")
            block += frame.payload
        if len(block) > self._largest:
            raise ProtocolViolation("headers are too large")
        if not frame.flags & END_HEADERS:
            self._begun = begun, block
            return None
        self._begun = None
        return Block(begun.stream, bool(begun.flags & END_STREAM), self.read(bytes(block)))

    def read(self, block: bytes) -> Mapping[str, str]:
        """Decode names and values. Raises HPACKError."""
        known = self._known.get(block)
        if known is not None:
            return known
        decoded = self._decoder.decode(block, raw=True)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in decoded}
        if not _only_points(block):
            self._known.clear()
        elif len(self._known) < _MAX_CACHED:
            self._known[block] = headers
        return headers


def _only_points(block: bytes) -> bool:
    """True if every byte is an index; 0x80 is none, and after 0xFF the number continues."""
    return all(0x80 < byte < 0xFF for byte in block)
