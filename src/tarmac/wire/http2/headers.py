"""Header blocks of one connection, in the order in which they come.

A block may come in several frames, between which no other may come. A peer says the same few things again and again:
once they are in the table that both sides keep, a block is a few bytes that only point into it. Such a block says what
it said before, for as long as no other has changed the table, so it is read once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import hpack

from tarmac.wire.http2.frames import END_HEADERS, END_STREAM, Frame, FrameType, without_padding
from tarmac.wire.violations import ProtocolViolation

_MOST = 64  # blocks remembered
_LARGEST = 64 * 1024


class Block(NamedTuple):
    """Headers, whole. `last`: nothing follows them on their stream."""

    stream: int
    last: bool
    headers: Mapping[str, str]


class HeaderReader:
    """Reads blocks. All of them have to be read, wanted or not: later ones refer to what earlier ones said."""

    def __init__(self, largest: int = _LARGEST) -> None:
        self._largest = largest
        self._decoder = hpack.Decoder()
        self._known: dict[bytes, Mapping[str, str]] = {}
        self._begun: tuple[Frame, bytearray] | None = None  # of which more is to come

    def check(self, kind: int) -> None:
        """Whether a frame of this kind may come now. Raises ProtocolViolation."""
        if (self._begun is not None) != (kind == FrameType.CONTINUATION):
            raise ProtocolViolation("headers and what continues them do not follow each other")

    def feed(self, frame: Frame) -> Block | None:
        """A frame of headers, or one that continues them; the block if that completes it. Raises ProtocolViolation."""
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
        """Names and values. Raises HPACKError."""
        known = self._known.get(block)
        if known is not None:
            return known
        decoded = self._decoder.decode(block, raw=True)
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in decoded}
        if not _only_points(block):
            self._known.clear()
        elif len(self._known) < _MOST:
            self._known[block] = headers
        return headers


def _only_points(block: bytes) -> bool:
    """Whether every byte is the number of an entry; 0x80 is none, and after 0xFF the number goes on."""
    return all(0x80 < byte < 0xFF for byte in block)
