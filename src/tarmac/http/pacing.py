"""Reads a connection in small chunks, so that no peer's frames block the loop.

A read returns up to a quarter of a megabyte. As one large frame that is cheap; as forty thousand empty ones it blocks
the loop for a tenth of a second. So received data is cut into chunks, one per loop iteration, and reading pauses
meanwhile.
"""

from __future__ import annotations

import asyncio

CHUNK_SIZE = 8 * 1024


class Paced(asyncio.Protocol):
    """Passes `received` one chunk at a time, and reads only while not held."""

    transport: asyncio.Transport
    """Set by the creator, or by `connection_made`."""

    def __init__(self, piece: int = CHUNK_SIZE) -> None:
        self._chunk_size = piece
        self._reasons = 0  # number of active holds
        self._waiting = b""  # received, not yet passed on

    def hold(self, held: bool) -> None:
        """Add or remove one hold; reading pauses while there is any."""
        self._reasons += 1 if held else -1
        if not self.transport.is_closing():
            self.transport.pause_reading() if self._reasons else self.transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._waiting:  # a transport may have had data in hand when it was paused
            self._waiting += data
            return
        self.received(data[: self._chunk_size])
        self._wait_with(data[self._chunk_size :])

    def received(self, piece: bytes) -> None:
        """Handle bytes, at most one chunk."""
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
        chunk, rest = self._waiting[: self._chunk_size], self._waiting[self._chunk_size :]
        self.hold(False)
        self.received(chunk)
        self._wait_with(rest)
