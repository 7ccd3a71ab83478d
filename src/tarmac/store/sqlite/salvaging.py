"""Every row of a damaged database that is still what was written, and what is lost beside them.

A page that cannot be read hides its rows only: the span of revisions around it is halved until what is readable on
either side is found.
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
from tarmac.store.sqlite.sums import Row, is_sound, row_sum

_WITHOUT_SUMS = SELECT.replace("value, sum", "value, NULL")  # of format 1
_ATTEMPTS = 200_000  # about ten seconds of looking at either side of what cannot be read
_MARGIN = 1_000_000  # revisions that may have followed the last one anybody knows of


class Salvage:
    """What was found in one file; `rows` in the order of their revisions."""

    def __init__(self, path: Path, marked: int) -> None:
        """Raises Damaged when nothing can be read at all."""
        self.rows: list[Row] = []
        self.damaged: list[Row] = []  # readable, but not what was written
        self.unreadable: list[tuple[int, int]] = []  # spans of revisions
        self.missing = 0  # rows that nobody can name
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
        for row in map(Row._make, self._span(db, query, 1, highest)):
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
            if low >= high or self._attempts > _ATTEMPTS:
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
    """What was found; 0 where damage is in the way."""
    try:
        return look()
    except (Damaged, *UNREADABLE):
        return 0
