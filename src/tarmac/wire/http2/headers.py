"""Header blocks of one connection, in the order in which they come.

A server says the same few things again and again: once they are in the table that both sides keep, a block is a few
bytes that only point into it. Such a block says what it said before, for as long as no other has changed the table, so
it is read once.
"""

from __future__ import annotations

from collections.abc import Mapping

import hpack

_MOST = 64  # blocks remembered


class HeaderReader:
    """Reads blocks. All of them have to be read, wanted or not: later ones refer to what earlier ones said."""

    def __init__(self) -> None:
        self._decoder = hpack.Decoder()
        self._known: dict[bytes, Mapping[str, str]] = {}

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
