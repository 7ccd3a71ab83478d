"""Timeouts of many short waits, kept by one slow timer instead of one timer each.

Requests within a process take microseconds, and setting and clearing a timer for each would be a good part of that. An
expired wait is cancelled at the next tick of the timer, so at most one tick late.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")
TICK_INTERVAL = 0.1


class CoarseTimeouts:
    """The waits of one loop. A task has at most one wait at a time, so the task is its key."""

    def __init__(self) -> None:
        self._due: dict[asyncio.Task[Any], float] = {}
        self._expired: set[asyncio.Task[Any]] = set()
        self._ticking = False

    async def within(self, seconds: float, awaitable: Awaitable[T]) -> T:
        """Return the result. Raises TimeoutError when it does not arrive in time."""
        task = asyncio.current_task()
        assert task is not None, "only tasks can be cancelled"
        loop, cancelled_before = asyncio.get_running_loop(), task.cancelling()
        self._due[task] = loop.time() + seconds
        if not self._ticking:
            self._ticking = True
            loop.call_later(min(TICK_INTERVAL, seconds), self._tick, loop)
        try:
            return await awaitable
        except asyncio.CancelledError:
            if self._take_back(task) and task.cancelling() <= cancelled_before:
                raise TimeoutError from None
            raise  # the task was cancelled by its owner, too
        finally:
            del self._due[task]
            self._take_back(task)  # the tick may have cancelled the task after its result arrived

    def _take_back(self, task: asyncio.Task[Any]) -> bool:
        """Return True if the task was cancelled from here, and undo that cancellation."""
        if task not in self._expired:
            return False
        self._expired.discard(task)
        task.uncancel()
        return True

    def _tick(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task, due in self._due.items():
            if due <= now and task not in self._expired:
                self._expired.add(task)
                task.cancel()
        self._ticking = bool(self._due)
        if self._ticking:
            loop.call_later(TICK_INTERVAL, self._tick, loop)
