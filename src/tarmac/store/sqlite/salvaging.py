"""Reads every intact row of a damaged database, and lists the losses.

A page that cannot be read hides only its own rows: the range of revisions around it is halved until the readable rows
on either side are found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw

from tarmac.store.interface import Damaged
from tarmac.store.sqlite.checking import SELECT, UNREADABLE
from tarmac.store.sqlite.format import read_total
from tarmac.store.sqlite.opening import connect
from tarmac.store.sqlite.sums import LogRow, is_sound, row_sum

_WITHOUT_SUMS = SELECT.replace("value, sum", "value, NULL")  # of format 1
_MAX_ATTEMPTS = 200_000  # bounds the bisection to about ten seconds
_MARGIN = 1_000_000  # revisions that may follow the newest known one


class Salvage:
    """The findings in one file; `rows` in the order of their revisions."""

    def __init__(self, path: Path, marked: int) -> None:
        """Read the file. Raises Damaged when nothing can be read at all."""
        self.rows: list[LogRow] = []
        self.damaged: list[LogRow] = []  # readable, but with a wrong sum
        self.unreadable: list[tuple[int, int]] = []  # ranges of revisions
        self.missing = 0  # rows that cannot be named
        self.floor = 0  # of the history, where it can be read
        self._attempts = 0
        if not path.exists() or not path.stat().st_size:  # SQLite would remove the log of an empty database
            return
        try:
            with closing(connect(path)) as db:
                self.floor = _readable(lambda: read_total(db).floor)
                last = _readable(lambda: int(db.execute("SELECT ifnull(max(revision), 0) FROM log").get))
                self._read_all(db, max(marked, self.floor, last, 1) + _MARGIN)
        except UNREADABLE as error:
            raise Damaged(f"nothing of {path} can be read ({error}): restore a backup") from error

    def _read_all(self, db: apsw.Connection, highest: int) -> None:
        columns = [name for (name,) in db.execute("SELECT name FROM pragma_table_info('log')")]
        query = SELECT if "sum" in columns else _WITHOUT_SUMS
        for row in map(LogRow._make, self._span(db, query, 1, highest)):
            found = row if query is SELECT else row._replace(sum=row_sum(*row[:8]))
            (self.rows if is_sound(found) else self.damaged).append(found)
        self.missing = max(0, _readable(lambda: read_total(db).rows) - len(self.rows) - len(self.damaged))

    def _span(self, db: apsw.Connection, query: str, low: int, high: int) -> Iterator[tuple[Any, ...]]:
        self._attempts += 1
        try:
            for row in db.execute(f"{query} WHERE revision BETWEEN ? AND ? ORDER BY revision", (low, high)):
                yield row
                low = row[0] + 1
        except UNREADABLE:
            if low >= high or self._attempts > _MAX_ATTEMPTS:
                self._lose(low, high)
                return
            middle = (low + high) // 2
            yield from self._span(db, query, low, middle)
            yield from self._span(db, query, middle + 1, high)

    def _lose(self, low: int, high: int) -> None:
        if self.unreadable and self.unreadable[-1][1] == low - 1:
            low = self.unreadable.pop()[0]
        self.unreadable.append((low, high))


def _readable(look: Callable[[], int]) -> int:
    """Return the value, or 0 where damage prevents reading it."""
    try:
        return look()
    except (Damaged, *UNREADABLE):
        return 0
