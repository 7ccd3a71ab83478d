"""Writes under one guard, one after the other.

The store lets a guarded write pass only if its server had seen every earlier one. Those of one server would overtake
each other all the time; here they wait for each other instead, and each looks at the state when its turn has come. One
that a write of another server has overtaken all the same begins anew.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from weakref import WeakValueDictionary

from tarmac.api.status import TooManyRequests
from tarmac.store.interface import Entry, Overtaken

_ATTEMPTS = 32  # each that fails is a write of another server that succeeded


class Turns:
    """Who may write under which guard."""

    def __init__(self) -> None:
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def write(self, guards: Sequence[str], attempt: Callable[[], Awaitable[Entry]]) -> Entry:
        """Check and write when nobody else does under these guards. Raises TooManyRequests when others win for ever."""
        async with AsyncExitStack() as stack:
            for guard in sorted(guards):  # everybody in the same order, or two would wait for each other
                await stack.enter_async_context(self._locks.setdefault(guard, asyncio.Lock()))
            for _ in range(_ATTEMPTS):
                try:
                    return await attempt()
                except Overtaken:
                    continue
        text = "other servers are writing under the same quota or addresses, please try again"  # nothing was written
        raise TooManyRequests(text, details={"retryAfterSeconds": 1}, headers=[("Retry-After", "1")])
