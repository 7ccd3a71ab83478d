"""Deadlines of many short waits, kept by one slow timer instead of one timer each.

Requests within a process take microseconds, and setting and clearing a timer for each would be a good part of that. A
wait that takes too long is ended at the next beat after its time, so at most that much later.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, TypeVar

T = TypeVar("T")
BEAT = 0.1


class Deadlines:
    """The waits of one loop. A task waits for one thing at a time, so it is known by its task."""

    def __init__(self) -> None:
        self._due: dict[asyncio.Task[Any], float] = {}
        self._expired: set[asyncio.Task[Any]] = set()
        self._beating = False

    async def within(self, seconds: float, awaitable: Awaitable[T]) -> T:
        """The result, or TimeoutError when it does not come in time."""
        task = asyncio.current_task()
        assert task is not None, "only tasks can be cancelled"
        loop, cancelled_before = asyncio.get_running_loop(), task.cancelling()
        self._due[task] = loop.time() + seconds
        if not self._beating:
            self._beating = True
            loop.call_later(min(BEAT, seconds), self._beat, loop)
        try:
            return await awaitable
        except asyncio.CancelledError:
            if self._take_back(task) and task.cancelling() <= cancelled_before:
                raise TimeoutError from None
            raise  # somebody else wants the task to end, too
        finally:
            del self._due[task]
            self._take_back(task)

    def _take_back(self, task: asyncio.Task[Any]) -> bool:
        """Whether the task was cancelled from here; if so, it no longer is."""
        if task not in self._expired:
            return False
        self._expired.discard(task)
        task.uncancel()
        return True

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        for task, due in self._due.items():
            if due <= now and task not in self._expired:
                self._expired.add(task)
                task.cancel()
        self._beating = bool(self._due)
        if self._beating:
            loop.call_later(BEAT, self._beat, loop)
