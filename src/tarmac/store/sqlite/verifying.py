"""Once a day everything on the disk is read again and compared with its sums.

It runs in slices in a thread, on a connection of its own, so neither the loop nor a reader of the history waits for it.
Then, in one transaction, the pages are checked and the rows counted. What is found goes to the log, to `/readyz`
(`store-integrity`) and to the metrics. Reads go on: they come from memory, which is as it was acknowledged.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from tarmac.base.clock import Clock
from tarmac.base.log import log
from tarmac.store.interface import Damaged, Unavailable
from tarmac.store.sqlite.checking import check_pages, check_slice, check_total, named
from tarmac.store.sqlite.opening import connect, explained
from tarmac.store.sqlite.sums import Row

_log = log("store.sqlite")

_EVERY_SECONDS = 24 * 3600.0
_SLICE = 256  # rows: about a millisecond


class Verifier:
    """Verifies one file again and again; `damage` is what the last pass found, or a reader since."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self.damage: str | None = None
        self.verified_at = clock.now()  # a store is verified when it is opened

    async def run(self) -> None:
        """Once a day; cancel to end."""
        while True:
            await self._clock.sleep(_EVERY_SECONDS)
            await self.verify()

    async def verify(self) -> None:
        """One pass over everything."""
        after, damaged = 0, list[Row]()
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
        except Unavailable as error:  # the next day is soon enough
            _log.warning("the store could not be verified", reason=str(error))
            return
        else:
            self.damage = None
            _log.info("the store was verified", path=str(self._path))
        self.verified_at = self._clock.now()

    def found(self, damage: str) -> None:
        """Somebody met damage."""
        self.damage = damage
        _log.error("the store is damaged", reason=damage)

    def _check_slice(self, after: int) -> tuple[int, list[Row]]:
        """The next rows: the last revision looked at (0 at the end), and which of them are damaged."""
        db = connect(self._path)
        try:
            with explained(self._path):
                return check_slice(db, after, _SLICE)
        finally:
            db.close()

    def _check_whole(self, damaged: list[Row]) -> None:
        db = connect(self._path)
        try:
            with explained(self._path), db:  # one moment, whatever is written meanwhile
                if damaged:
                    raise Damaged(named(damaged))
                check_pages(db)
                check_total(db)
        finally:
            db.close()
