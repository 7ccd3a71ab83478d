"""Waiting on the injected clock."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Iterable
from typing import Any

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks


async def within(clock: Clock, seconds: float, work: Coroutine[Any, Any, object]) -> bool:
    """Run a coroutine with a timeout; return True if it completed. Its exceptions are raised."""
    tasks = Tasks()
    task = tasks.track(work, "work within a time")
    try:
        return await first_of(clock, seconds, (task,))
    finally:
        # Also on cancellation: the work must not outlive its caller.
        await tasks.close()


async def first_of(clock: Clock, seconds: float, tasks: Iterable[asyncio.Future[Any]]) -> bool:
    """Wait for all of these tasks, at most this many seconds. Exceptions of completed tasks are raised."""
    waited = list(tasks)
    timers = Tasks()
    timer = timers.begin(clock.sleep(seconds), "timer")
    try:
        while not timer.done() and not all(task.done() for task in waited):
            # asyncio.wait cancels nothing: tasks that are late go on after the timeout.
            await asyncio.wait({timer, *(task for task in waited if not task.done())}, return_when="FIRST_COMPLETED")
    finally:
        timers.cancel()  # not awaited: a caller that ends containers in order must continue in the same loop iteration
    for task in waited:
        if task.done() and not task.cancelled():
            task.result()
    return all(task.done() for task in waited)


class Alarm:
    """Calls once, at the earliest of the set times. Times are of the monotonic clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._at = 0.0
        self._tasks = Tasks()
        self._task: asyncio.Task[None] | None = None

    def set(self, seconds: float, call: Any) -> None:
        """Call after this many seconds, unless an earlier call is set."""
        at = self._clock.monotonic() + seconds
        if self._task is not None and not self._task.done():
            if self._at <= at:
                return
            self._task.cancel()
        self._at = at
        self._task = self._tasks.begin(self._run(seconds, call), "alarm")

    def clear(self) -> None:
        """Cancel the call."""
        if self._task is not None:
            self._task.cancel()
            self._task = None

    async def _run(self, seconds: float, call: Any) -> None:
        await self._clock.sleep(seconds)
        # Before the call, which may set the alarm again: `set` would cancel this task in the middle of it.
        self._task = None
        call()
