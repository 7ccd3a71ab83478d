"""A connection that is read a piece at a time, so that nobody's frames keep the loop from the others.

A read brings up to a quarter of a megabyte. As one large frame that is nothing; as forty thousand empty ones it is a
tenth of a second during which nobody else is served. So what comes is cut into pieces, with a turn of the loop between
them, and nothing more is read meanwhile.
"""

from __future__ import annotations

import asyncio

PIECE = 8 * 1024


class Paced(asyncio.Protocol):
    """Hands `received` one piece at a time, and reads on only while there is no reason not to."""

    transport: asyncio.Transport
    """Set by whoever makes it, or by `connection_made`."""

    def __init__(self, piece: int = PIECE) -> None:
        self._piece = piece
        self._reasons = 0  # not to read
        self._waiting = b""  # read already, and not handed on yet

    def hold(self, held: bool) -> None:
        """One more, or one less, reason not to read."""
        self._reasons += 1 if held else -1
        if not self.transport.is_closing():
            self.transport.pause_reading() if self._reasons else self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._waiting:  # a transport may have had some in hand when it was told to stop
            self._waiting += data
            return
        self.received(data[: self._piece])
        self._wait_with(data[self._piece :])

    def received(self, piece: bytes) -> None:
        """Some bytes, no more than a piece."""
        raise NotImplementedError

    def _wait_with(self, rest: bytes) -> None:
        self._waiting = rest
        if rest:
            self.hold(True)
            asyncio.get_running_loop().call_soon(self._go_on)

    def _go_on(self) -> None:
        if self.transport.is_closing():
            self._waiting = b""
            return
        piece, rest = self._waiting[: self._piece], self._waiting[self._piece :]
        self.hold(False)
        self.received(piece)
        self._wait_with(rest)
