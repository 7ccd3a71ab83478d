"""Bounds the share of one event-loop iteration that controllers take, so that client requests are served in between.

A reconcile whose requests are served inside the process never suspends, and neither does a worker that finds the next
key ready: without a bound, ten thousand keys are one iteration. Workers therefore wait before each key, and in-process
transports before each request. Within `MAX_SECONDS` seconds of an iteration's first unit of work they continue at once.
Later ones queue, and so do all while there is a queue; each following iteration takes as many as fit by the mean
duration of the last ones, in FIFO order. Fewer would cost more: writes of one iteration are committed together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Final
from weakref import WeakKeyDictionary

from tarmac.base.clock import Clock

MAX_SECONDS: Final = 0.01
MIN_UNITS, MAX_UNITS = 8, 256  # units of work per iteration while there is a queue


class LoopBudget:
    """The iterations of one loop.

    `clock` measures them: virtual time does not pass within one, so none is ever over.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._began: float | None = None
        self._units = 0  # of this iteration
        self._mean_seconds = 0.0005  # mean duration of a unit, in seconds
        self._waiters: deque[asyncio.Future[None]] = deque()

    async def wait(self) -> None:
        """Return when there is room for one more unit of work."""
        self._units += 1
        if self._began is None:
            self._begin()
        elif self._waiters or self._clock.monotonic() - self._began >= MAX_SECONDS:
            await self._wait_in_line()

    def _begin(self) -> None:
        self._began = self._clock.monotonic()
        asyncio.get_running_loop().call_soon(self._next)  # in the next iteration

    def _next(self) -> None:
        """End the iteration and wake waiters. The first of them begins the next one, which keeps the queue moving."""
        if self._began is not None and self._units:
            mean = (self._clock.monotonic() - self._began) / self._units
            self._mean_seconds += (mean - self._mean_seconds) / 8
        self._began, self._units = None, 0
        self._wake(min(MAX_UNITS, max(MIN_UNITS, round(MAX_SECONDS / max(self._mean_seconds, 1e-6)))))

    def _wake(self, number: int) -> None:
        while self._waiters and number:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(None)
                number -= 1

    async def _wait_in_line(self) -> None:
        self._units -= 1
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            if not waiter.cancelled():
                self._wake(1)  # pass the wake-up on
            raise
        self._units += 1
        if self._began is None:
            self._begin()


_of_loops: WeakKeyDictionary[asyncio.AbstractEventLoop, LoopBudget] = WeakKeyDictionary()


def loop_budget(clock: Clock) -> LoopBudget:
    """Return the budget of the running loop, shared by all its tasks. The first caller's clock is used."""
    loop = asyncio.get_running_loop()
    found = _of_loops.get(loop)
    if found is None:
        found = _of_loops[loop] = LoopBudget(clock)
    return found
