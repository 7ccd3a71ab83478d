"""Removes links of sandboxes that ended without a DEL call.

A runtime lists a sandbox only once it is complete, and its links exist earlier: so a link is removed only if two checks
in a row found no sandbox.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Set

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.datapath.interface import Datapath

INTERVAL = 30.0

_log = log("network")


class OrphanLinkSweeper:
    """Compares the datapath with the sandboxes that `live` returns, twice a minute."""

    def __init__(self, datapath: Datapath, live: Callable[[], Awaitable[Set[str]]], clock: Clock) -> None:
        self._datapath = datapath
        self._live = live
        self._clock = clock
        self._suspects: Set[str] = set()

    async def run(self) -> None:
        """Sweep until cancelled. Failures propagate to the caller, which restarts it."""
        while True:
            await self.sweep()
            await self._clock.sleep(INTERVAL)

    async def sweep(self) -> None:
        """Remove the links without a sandbox in both the last and this check."""
        # Before the runtime is asked: a link made during that call becomes no suspect.
        present = self._datapath.sandboxes()
        live = await self._live()
        # Links that came since the last check are kept: the runtime does not list their sandboxes yet.
        swept = await self._datapath.sweep(live | (self._datapath.sandboxes() - self._suspects))
        if swept:
            _log.info("removed links of ended sandboxes", sandboxes=list(swept))
        self._suspects = present - live - set(swept)
