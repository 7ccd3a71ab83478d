"""Serializes the writes under one guard.

The store accepts a guarded write only if its server had seen every earlier one. Concurrent writes of one server would
constantly invalidate each other; they queue here instead, and each reads the state when its turn comes. A write
overtaken by one of another server is retried from the start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from weakref import WeakValueDictionary

from tarmac.api.status import TooManyRequests
from tarmac.store.interface import Entry, Overtaken

_MAX_ATTEMPTS = 32  # each failed attempt means that a write of another server succeeded


class GuardLocks:
    """One lock per guard."""

    def __init__(self) -> None:
        # A lock exists only while a write holds it or waits for it.
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def write(self, guards: Sequence[str], attempt: Callable[[], Awaitable[Entry]]) -> Entry:
        """Run `attempt` while holding the locks of all guards, retrying while other servers overtake it.

        Raises TooManyRequests after 32 lost attempts.
        """
        async with AsyncExitStack() as stack:
            for guard in sorted(guards):  # one global order of locking, or two writes could deadlock
                await stack.enter_async_context(self._locks.setdefault(guard, asyncio.Lock()))
            for _ in range(_MAX_ATTEMPTS):
                try:
                    # Each attempt reads the state anew; one that kept values of the last attempt would be overtaken for
                    # ever.
                    return await attempt()
                except Overtaken:
                    continue
        text = "other servers are writing under the same quota or addresses, please try again"  # nothing was written
        raise TooManyRequests(text, details={"retryAfterSeconds": 1}, headers=[("Retry-After", "1")])
