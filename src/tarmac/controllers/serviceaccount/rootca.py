"""Detects changes of the server's CA bundle, which may be rotated while controllers run."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tarmac.base.clock import Clock
from tarmac.controllers.context import RootCa

POLL_INTERVAL = 10.0


async def changes(root_ca: RootCa, clock: Clock) -> AsyncIterator[None]:
    """Yield after each detected change, until cancelled."""
    known = root_ca()
    while True:
        await clock.sleep(POLL_INTERVAL)
        if (found := root_ca()) != known:
            known = found
            yield
