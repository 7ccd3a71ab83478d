"""Joins two connections: every byte of either goes to the other, unchanged.

Back-pressure is passed on: a slow end pauses the reading of its peer. When one end closes, its peer is closed after its
unsent bytes; a peer that reads nothing for `CLOSE_TIMEOUT` seconds then is cut. A splice without traffic for `idle`
seconds ends; None disables that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

CLOSE_TIMEOUT = 30.0


class _End(asyncio.Protocol):
    def __init__(self, transport: asyncio.Transport, splice: Splice) -> None:
        self.transport = transport
        self.peer = self
        self._splice = splice
        self._cut: asyncio.TimerHandle | None = None

    def data_received(self, data: bytes) -> None:
        self._splice.moved = True
        if not self.peer.transport.is_closing():
            self.peer.transport.write(data)

    def pause_writing(self) -> None:
        if not self.peer.transport.is_closing():
            self.peer.transport.pause_reading()

    def resume_writing(self) -> None:
        if not self.peer.transport.is_closing():
            self.peer.transport.resume_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._cut is not None:
            self._cut.cancel()
        self._splice.ended()
        self.peer.end()

    def end(self) -> None:
        """Close after sending the remaining bytes."""
        if not self.transport.is_closing():
            self.transport.close()
            self._cut = asyncio.get_running_loop().call_later(CLOSE_TIMEOUT, self.transport.abort)


class Splice:
    """Two spliced connections."""

    def __init__(
        self,
        one: asyncio.Transport,
        other: asyncio.Transport,
        idle: float | None,
        over: Callable[[], None] = lambda: None,
    ) -> None:
        self.moved = False
        self._idle = idle
        self._over = over
        self._ends = first, second = _End(one, self), _End(other, self)
        first.peer, second.peer = second, first
        for end in self._ends:
            end.transport.set_protocol(end)
        self._timer = self._wait()

    def begin(self, of_one: bytes, of_other: bytes) -> None:
        """Pass on the bytes received before the splice."""
        for end, rest in zip(self._ends, (of_one, of_other), strict=True):
            if rest:
                end.data_received(rest)
            if end.transport.is_closing():  # it closed while its peer was being dialled
                end.peer.end()

    def ended(self) -> None:
        """Handle the close of one end."""
        if self._timer is not None:
            self._timer.cancel()
        self._over()

    def _wait(self) -> asyncio.TimerHandle | None:
        return None if self._idle is None else asyncio.get_running_loop().call_later(self._idle, self._check)

    def _check(self) -> None:
        if not self.moved:
            for end in self._ends:
                end.end()
            return
        self.moved = False
        self._timer = self._wait()


def splice(
    one: tuple[asyncio.Transport, bytes],
    other: tuple[asyncio.Transport, bytes],
    idle: float | None = 4 * 3600.0,
    over: Callable[[], None] = lambda: None,
) -> None:
    """Join two connections, each with the bytes it had sent already. `over` is called as each of them closes."""
    Splice(one[0], other[0], idle, over).begin(one[1], other[1])
