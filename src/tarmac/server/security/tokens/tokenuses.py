"""Tracks the daily use of Secret tokens, for Kubernetes' last-used label on their Secrets.

The label shows unused tokens, which can be deleted. A token is authenticated on the request path, which does not wait
for writes: uses are queued here, and a separate task writes the labels.
"""

from __future__ import annotations

import asyncio

from tarmac.api.identities import TokenHolder
from tarmac.base.clock import Clock, rfc3339

LAST_USED = "kubernetes.io/legacy-token-last-used"
_DAY = 24 * 3600
_RETRY_INTERVAL = 10.0  # seconds until a use is queued again, in case the write failed


class TokenUses:
    """The queue of Secrets that need a new last-used date."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._line: dict[TokenHolder, str] = {}
        self._some = asyncio.Event()

    def note(self, holder: TokenHolder, said: str) -> float:
        """Queue a Secret with the last-used date `said` if it is outdated.

        Return until when the check may be cached.
        """
        now = self._clock.now()
        if said in (_day(now), _day(now + _DAY)):  # the clock of a different server may be ahead
            return (now // _DAY + 1) * _DAY
        # In memory only: a kill loses the use, and the next request with the token queues it again.
        self._line[holder] = _day(now)
        self._some.set()
        return now + _RETRY_INTERVAL

    async def next(self) -> tuple[TokenHolder, str]:
        """Wait for and remove the oldest queued Secret. Return it with the new date."""
        while not self._line:
            self._some.clear()
            await self._some.wait()
        holder = next(iter(self._line))
        return holder, self._line.pop(holder)


def _day(now: float) -> str:
    return rfc3339(now)[:10]
