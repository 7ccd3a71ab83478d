"""Two connections made into one: every byte of either goes to the other, untouched.

Back-pressure is passed on: an end that does not take what we write stops the reading of the other. When one end goes,
the other is closed behind what it still has to get; one that takes nothing for `LINGER` seconds then is cut. Nothing
moving for `idle` seconds ends both; None when whoever splices sees to that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

LINGER = 30.0


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
        """Close behind what is still to be sent."""
        if not self.transport.is_closing():
            self.transport.close()
            self._cut = asyncio.get_running_loop().call_later(LINGER, self.transport.abort)


class Splice:
    """Two spliced connections. `rest` is what one end had sent before it was handed over."""

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
        """Pass on what came early."""
        for end, rest in zip(self._ends, (of_one, of_other), strict=True):
            if rest:
                end.data_received(rest)
            if end.transport.is_closing():  # it went while the other was being dialled
                end.peer.end()

    def ended(self) -> None:
        """One of them has gone."""
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
    """Join two connections, each with what it had sent already. `over` is called as each of them goes."""
    Splice(one[0], other[0], idle, over).begin(one[1], other[1])
