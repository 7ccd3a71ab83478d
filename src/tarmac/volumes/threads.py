"""Runs blocking work in threads, and serialises work by key.

Started work is finished before a cancellation is delivered: a thread cannot be stopped, and the next holder of the lock
must not run beside it.
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
    """Run to completion in a thread, even when cancelled meanwhile."""
    return await finished(asyncio.get_running_loop().run_in_executor(None, partial(work, *args, **kwargs)))


class KeyedLocks:
    """One lock per key in use."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    @asynccontextmanager
    async def hold(self, key: str) -> AsyncGenerator[None]:
        """Hold the lock of a key."""
        lock, users = self._locks.get(key, (None, 0))
        lock = lock or asyncio.Lock()
        self._locks[key] = (lock, users + 1)  # counted before waiting: the last user removes the lock
        try:
            async with lock:
                yield
        finally:
            lock, users = self._locks.pop(key)
            if users > 1:
                self._locks[key] = (lock, users - 1)
