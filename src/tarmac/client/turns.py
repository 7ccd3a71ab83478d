"""Bounds how much of one turn of the event loop controllers take, so that requests of clients are served in between.

A reconcile whose requests are answered inside the process never suspends, and neither does a worker that finds the next
key ready: without a bound, ten thousand keys are one turn. Workers therefore ask before each key, and in-process
transports before each request. Within `ALLOWED` seconds of a turn's first piece they go on at once. Later ones wait in
line, and so do all while there is a line; each following turn takes as many as fit by the mean duration of the last
ones, the longest waiting first. Fewer would cost more: writes of one turn are committed together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

from tarmac.base.clock import Clock

ALLOWED: Final = 0.01
FEWEST, MOST = 8, 256  # pieces of a turn while there is a line


class Turns:
    """The turns of one loop. `clock` measures them: virtual time does not pass within a turn, so none is ever over."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None
        self._pieces = 0  # of this turn
        self._lasts = 0.0005  # seconds that a piece takes, on average
        self._line: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Return when there is room for one more piece of work."""
        self._pieces += 1
        if self._began is None:
            self._begin()
        elif self._line or self._clock.monotonic() - self._began >= ALLOWED:
            await self._queue()

    def _begin(self) -> None:
        self._began = self._clock.monotonic()
        asyncio.get_running_loop().call_soon(self._next)  # in the next turn

    def _next(self) -> None:
        """End the turn and wake waiters. The first of them begins the next turn, which keeps the line moving."""
        if self._began is not None and self._pieces:
            lasted = (self._clock.monotonic() - self._began) / self._pieces
            self._lasts += (lasted - self._lasts) / 8
        self._began, self._pieces = None, 0
        self._wake(min(MOST, max(FEWEST, round(ALLOWED / max(self._lasts, 1e-6)))))

    def _wake(self, number: int) -> None:
        while self._line and number:
            waiter = self._line.popleft()
            if not waiter.done():
                waiter.set_result(None)
                number -= 1

    async def _queue(self) -> None:
        self._pieces -= 1
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._wake(1)  # its place is another's
            raise
        self._pieces += 1
        if self._began is None:
            self._begin()


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, Turns] = WeakKeyDictionary()


def turns(clock: Clock) -> Turns:
    """The Turns of the running loop, shared by all its tasks. The first caller's clock is used."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = Turns(clock)
    return found
