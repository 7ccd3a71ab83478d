"""Integrity checks of a database: the structure of its pages, the sum of each row, and their total.

The same checks run when a store is opened (over the rows as they are loaded), once a day beside the loop, and before
and after a repair. They change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from tarmac.store.interface import Damaged
from tarmac.store.sqlite.format import count_rows, read_total
from tarmac.store.sqlite.sums import LogRow, Total, is_sound

SELECT = "SELECT revision, at, bucket, name, created, previous, deleted, value, sum FROM log"
UNREADABLE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError, UnicodeDecodeError)
"""SQLite's exceptions on damage, also of its table definitions and text."""
_NAMED = 5  # damaged rows that are named one by one


def check_pages(db: apsw.Connection) -> None:
    """Check that every page is well formed and used once, or free; reads no row. Raises Damaged."""
    found = [text for (text,) in db.execute("PRAGMA quick_check(3)")]
    if found != ["ok"]:
        raise Damaged("; ".join(" ".join(str(text).split()) for text in found))


def check_total(db: apsw.Connection) -> None:
    """Check that no row is missing. Needs a transaction if a server writes. Raises Damaged."""
    total = read_total(db)
    _compare(total, *count_rows(db, total.floor))


def check_recent(db: apsw.Connection, total: Total) -> None:
    """Check that no row of the history is missing. Needs a transaction. Raises Damaged."""
    recent = int(db.execute("SELECT count(*) FROM log WHERE revision > ?", (total.floor,)).get)
    if recent != total.recent:
        raise Damaged(f"its history has {recent} rows instead of {total.recent}")


def sound_rows(db: apsw.Connection) -> Iterator[tuple[Any, ...]]:
    """Yield every row's columns, oldest first, up to the first damaged one. Raises Damaged naming damaged or missing
    rows.

    Start-up waits for it, so no row becomes a `LogRow`.
    """
    total = read_total(db)
    floor = total.floor
    rows = recent = added = 0
    damaged: list[LogRow] = []
    for row in db.execute(f"{SELECT} ORDER BY revision"):
        rows += 1
        if not is_sound(row):
            damaged.append(LogRow._make(row))
        elif not damaged:
            recent += row[0] > floor
            added += row[8]
            yield row
    if damaged:
        raise Damaged(named(damaged))
    _compare(total, rows, recent, added)


def check_slice(db: apsw.Connection, after: int, count: int) -> tuple[int, list[LogRow]]:
    """Check the next rows; returns the last revision checked (0 at the end), and the damaged rows."""
    rows = [
        LogRow._make(row)
        for row in db.execute(f"{SELECT} WHERE revision > ? ORDER BY revision LIMIT ?", (after, count))
    ]
    return rows[-1].revision if rows else 0, [row for row in rows if not is_sound(row)]


def named(damaged: list[LogRow]) -> str:
    """Return a text naming the rows that fail their sums."""
    more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
    return f"{', '.join(row.key for row in damaged[:_NAMED])}{more}: checksum mismatch"


def _compare(total: Total, rows: int, recent: int, added: int) -> None:
    if rows != total.rows:
        raise Damaged(f"it has {rows} rows instead of {total.rows}")
    if (recent, added) != (total.recent, total.added):
        raise Damaged("its rows do not add up to its total")
