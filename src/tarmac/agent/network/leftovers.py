"""Links whose sandbox has gone without a word are removed.

A runtime names a sandbox only once it is made, and its links come before: only what two looks in a row found without a
sandbox is swept.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.datapath.interface import Datapath

EVERY = 30.0

_log = log("network")


class Sweeper:
    """Compares the datapath with the sandboxes that `live` names, twice a minute."""

    def __init__(self, datapath: Datapath, live: Callable[[], Awaitable[Set[str]]], clock: Clock) -> None:
        self._datapath = datapath
        self._live = live
        self._clock = clock
        self._suspects: Set[str] = set()

    async def run(self) -> None:
        """Sweep until cancelled. A failure is for the caller to see and to begin again."""
        while True:
            await self.look()
            await self._clock.sleep(EVERY)

    async def look(self) -> None:
        """Remove the links whose sandbox was missing at the last look and is missing now."""
        present = self._datapath.sandboxes()
        live = await self._live()
        swept = await self._datapath.sweep(live | (self._datapath.sandboxes() - self._suspects))
        if swept:
            _log.info("removed links of sandboxes that are gone", sandboxes=list(swept))
        self._suspects = present - live - set(swept)
