"""Which tokens of Secrets were used today, so that their Secrets can say so by a label, as Kubernetes has it.

By the label whoever cleans up finds tokens that nobody uses any more. A token is recognised on the way of a request,
which waits for no write: what was seen is put in line here, and somebody beside the server writes it down.
"""

from __future__ import annotations

import asyncio

from tarmac.api.identities import TokenHolder
from tarmac.base.clock import Clock, rfc3339

LAST_USED = "kubernetes.io/legacy-token-last-used"
_DAY = 24 * 3600
_AGAIN = 10.0  # seconds after which a use is noted anew, in case it could not be written down


class TokenUses:
    """Secrets that are to say another day."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._line: dict[TokenHolder, str] = {}
        self._some = asyncio.Event()

    def note(self, holder: TokenHolder, said: str) -> float:
        """Have a Secret that says `said` say today. Returns until when the token need not be looked at again."""
        now = self._clock.now()
        if said in (_day(now), _day(now + _DAY)):  # another server's clock may be ahead
            return (now // _DAY + 1) * _DAY
        self._line[holder] = _day(now)
        self._some.set()
        return now + _AGAIN

    async def next(self) -> tuple[TokenHolder, str]:
        """The Secret that has waited longest, and the day that it is to say."""
        while not self._line:
            self._some.clear()
            await self._some.wait()
        holder = next(iter(self._line))
        return holder, self._line.pop(holder)


def _day(now: float) -> str:
    return rfc3339(now)[:10]
