"""Whether a database is whole: the structure of its pages, the sum of each row, and what they add up to.

The same checks run when a store is opened (over the rows as they are loaded), once a day beside the loop, and before
and after a repair. They change nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import apsw

from tarmac.store.interface import Damaged
from tarmac.store.sqlite.format import count_rows, read_total
from tarmac.store.sqlite.sums import Row, Total, is_sound

SELECT = "SELECT revision, at, bucket, name, created, previous, deleted, value, sum FROM log"
UNREADABLE = (apsw.CorruptError, apsw.NotADBError, apsw.SQLError, apsw.MismatchError, UnicodeDecodeError)
"""What SQLite raises when it meets damage, its tables' definitions and text included."""
_NAMED = 5  # damaged rows that are told one by one


def check_pages(db: apsw.Connection) -> None:
    """Every page is used once, or free, and is well formed; no row is read. Raises Damaged."""
    found = [text for (text,) in db.execute("PRAGMA quick_check(3)")]
    if found != ["ok"]:
        raise Damaged("; ".join(" ".join(str(text).split()) for text in found))


def check_total(db: apsw.Connection) -> None:
    """Nothing is missing. In a transaction, if others write. Raises Damaged."""
    total = read_total(db)
    _compare(total, *count_rows(db, total.floor))


def check_recent(db: apsw.Connection, total: Total) -> None:
    """No row of the history is missing. In a transaction. Raises Damaged."""
    recent = int(db.execute("SELECT count(*) FROM log WHERE revision > ?", (total.floor,)).get)
    if recent != total.recent:
        raise Damaged(f"its history has {recent} rows instead of {total.recent}")


def sound_rows(db: apsw.Connection) -> Iterator[tuple[Any, ...]]:
    """Every row's columns, oldest first, up to the first damaged one; then Damaged names those, or what is missing.

    A start waits for it, so no row becomes a `Row`.
    """
    total = read_total(db)
    floor = total.floor
    rows = recent = added = 0
    damaged: list[Row] = []
    for row in db.execute(f"{SELECT} ORDER BY revision"):
        rows += 1
        if not is_sound(row):
            damaged.append(Row._make(row))
        elif not damaged:
            recent += row[0] > floor
            added += row[8]
            yield row
    if damaged:
        raise Damaged(named(damaged))
    _compare(total, rows, recent, added)


def check_slice(db: apsw.Connection, after: int, count: int) -> tuple[int, list[Row]]:
    """The next rows: the last revision looked at (0 at the end), and which of them are damaged."""
    rows = [
        Row._make(row) for row in db.execute(f"{SELECT} WHERE revision > ? ORDER BY revision LIMIT ?", (after, count))
    ]
    return rows[-1].revision if rows else 0, [row for row in rows if not is_sound(row)]


def named(damaged: list[Row]) -> str:
    """Which rows fail their sums."""
    more = f" and {len(damaged) - _NAMED} more" if len(damaged) > _NAMED else ""
    return f"{', '.join(row.key for row in damaged[:_NAMED])}{more}: not what was written"


def _compare(total: Total, rows: int, recent: int, added: int) -> None:
    if rows != total.rows:
        raise Damaged(f"it has {rows} rows instead of {total.rows}")
    if (recent, added) != (total.recent, total.added):
        raise Damaged("its rows do not add up to its total")
