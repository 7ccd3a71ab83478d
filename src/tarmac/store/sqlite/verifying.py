"""Reads the whole file once a day and verifies its sums.

It runs in slices in a thread, on its own connection, so neither the loop nor a reader of the history waits for it.
Then, in one transaction, the pages are checked and the rows counted. Findings go to the log, to `/readyz`
(`store-integrity`) and to the metrics. Reads continue: they come from memory, which is as acknowledged.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.store.interface import Damaged, Unavailable
from tarmac.store.sqlite.checking import check_pages, check_slice, check_total, named
from tarmac.store.sqlite.opening import OpenErrors, connect
from tarmac.store.sqlite.sums import LogRow

_log = log("store.sqlite")

_INTERVAL_SECONDS = 24 * 3600.0
_SLICE = 256  # rows: about a millisecond


class Verifier:
    """Verifies one file periodically; `damage` is the finding of the last pass, or of a reader since."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self.damage: str | None = None
        self.verified_at = clock.now()  # opening a store verifies it

    async def run(self) -> None:
        """Verify once a day until cancelled."""
        while True:
            await self._clock.sleep(_INTERVAL_SECONDS)
            await self.verify()

    async def verify(self) -> None:
        """Run one pass over the whole file."""
        after, damaged = 0, list[LogRow]()
        try:
            while True:
                last, found = await asyncio.to_thread(self._check_slice, after)
                damaged += found
                if not last:
                    break
                after = last
            await asyncio.to_thread(self._check_whole, damaged)
        except Damaged as error:
            self.found(str(error))
        except Unavailable as error:  # retried the next day
            _log.warning("store verification failed, will retry", reason=str(error))
            return
        else:
            self.damage = None
            _log.info("store verified", path=str(self._path))
        self.verified_at = self._clock.now()

    def found(self, damage: str) -> None:
        """Record damage."""
        self.damage = damage
        _log.error("store is damaged", reason=damage)

    def _check_slice(self, after: int) -> tuple[int, list[LogRow]]:
        """Check the next rows; returns the last revision checked (0 at the end), and the damaged rows."""
        db = connect(self._path)
        try:
            with OpenErrors(self._path):
                return check_slice(db, after, _SLICE)
        finally:
            db.close()

    def _check_whole(self, damaged: list[LogRow]) -> None:
        db = connect(self._path)
        try:
            with OpenErrors(self._path), db:  # one transaction: concurrent writes are not seen
                if damaged:
                    raise Damaged(named(damaged))
                check_pages(db)
                check_total(db)
        finally:
            db.close()
