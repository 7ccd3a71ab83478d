"""Blocking work beside the loop, and one thing at a time per key.

Work that has begun is finished before a cancellation is heard: a thread cannot be stopped, and whoever waits for the
lock must not meet it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import ParamSpec, TypeVar

from tarmac.base.tasks import finished

P = ParamSpec("P")
T = TypeVar("T")


async def in_thread(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Run to its end in a thread, even when cancelled meanwhile."""
    return await finished(asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **kwargs)))


class Locks:
    """A lock for each key that somebody holds or waits for."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncGenerator[None]:
        """Alone with this key."""
        lock, users = self._locks.get(key, (None, 0))
        lock = lock or asyncio.Lock()
        self._locks[key] = (lock, users + 1)
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = (lock, users - 1)
