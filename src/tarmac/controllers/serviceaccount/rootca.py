"""The authorities that vouch for the server: others when they are rotated, while controllers run."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tarmac.base.clock import Clock
from tarmac.controllers.context import RootCa

EVERY = 10.0


async def changes(root_ca: RootCa, clock: Clock) -> AsyncIterator[None]:
    """Something for each time that they are found to be others, until cancelled."""
    known = root_ca()
    while True:
        await clock.sleep(EVERY)
        if (found := root_ca()) != known:
            known = found
            yield
