"""A connection that is read a piece at a time, so that nobody's frames keep the loop from the others.

A read brings up to a quarter of a megabyte. As one large frame that is nothing; as forty thousand empty ones it is a
tenth of a second during which no other pod is served. So what comes is cut into pieces of `PIECE` bytes, with a turn of
the loop between them, and nothing more is read meanwhile.
"""

from __future__ import annotations

import asyncio

PIECE = 16 * 1024


class Paced(asyncio.Protocol):
    """Hands `received` one piece at a time, and reads on only while there is no reason not to."""

    def __init__(self, transport: asyncio.Transport) -> None:
        self.transport = transport
        self._reasons = 0  # not to read
        self._waiting = b""  # read already, and not handed on yet

    def start(self, rest: bytes) -> None:
        """Take the connection over, with what came behind its upgrade."""
        self.transport.set_protocol(self)
        if rest:
            self.data_received(rest)

    def hold(self, held: bool) -> None:
        """One more, or one less, reason not to read."""
        self._reasons += 1 if held else -1
        if not self.transport.is_closing():
            self.transport.pause_reading() if self._reasons else self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._waiting:  # a transport may have had some in hand when it was told to stop
            self._waiting += data
            return
        self.received(data[:PIECE])
        self._wait_with(data[PIECE:])

    def received(self, piece: bytes) -> None:
        """Some bytes, no more than `PIECE`."""
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
        piece, rest = self._waiting[:PIECE], self._waiting[PIECE:]
        self.hold(False)
        self.received(piece)
        self._wait_with(rest)
