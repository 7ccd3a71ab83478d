"""The tables, and the upgrade of files of earlier formats.

`user_version` is FORMAT. A program opens files of its own or an older format (and then raises it, in the transaction
that converts the tables, so a crash in the middle leaves the old one) and refuses newer ones: a downgrade needs a
backup. Format 1 had neither sums nor a marker.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import apsw

from tarmac.store.formats import too_new
from tarmac.store.interface import Damaged, Unavailable
from tarmac.store.sqlite.sums import LogRow, Total, row_sum

FORMAT = 2
_APPLICATION_ID = 0x5441524D  # "TARM": tells Tarmac's files from other SQLite files

_LOG = """
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,  -- Unix seconds
    bucket   TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    created  INTEGER NOT NULL,  -- revision of the create
    previous INTEGER NOT NULL,  -- revision that this one replaced, 0 for a create
    deleted  INTEGER NOT NULL,
    value    BLOB,              -- NULL: a delete whose last state is the previous value
    sum      INTEGER NOT NULL DEFAULT 0
) STRICT;
"""
_TOTAL = """
CREATE TABLE total (
    id    TEXT    NOT NULL,  -- of the store; its marker has the same
    floor INTEGER NOT NULL,  -- up to here only what was live then is left
    rows  INTEGER NOT NULL,  -- in the log
    recent INTEGER NOT NULL, -- of them, those above the floor
    added INTEGER NOT NULL,  -- the sums of all
    sum   INTEGER NOT NULL   -- of this row
) STRICT;
"""
_COLUMNS = "revision, at, bucket, name, created, previous, deleted, value"


def format_of(db: apsw.Connection, path: Path) -> int:
    """Return the format; 0 for an empty file. Raises Unavailable for a file that this program must not touch."""
    application = db.execute("PRAGMA application_id").get
    version = int(db.execute("PRAGMA user_version").get)
    if not application and not db.execute("SELECT count(*) FROM sqlite_schema").get:
        return 0
    if application != _APPLICATION_ID:
        raise Unavailable(f"{path} is a SQLite file of another program")
    if version > FORMAT:
        raise Unavailable(f"{path}: {too_new(version, FORMAT)}")
    return version


def create_tables(db: apsw.Connection, total: Total) -> None:
    """Create the tables in an empty file."""
    with db:
        db.execute(_LOG + _TOTAL)
        _finish(db, total)


def upgrade(db: apsw.Connection, store: str) -> None:
    """Upgrade from format 1, in one transaction: adds a sum to each row, and the total."""
    summed: Any = row_sum  # the table is strict, so the column types are right
    db.create_scalar_function("row_sum", summed, 8, deterministic=True)
    with db:
        db.execute("ALTER TABLE log ADD COLUMN sum INTEGER NOT NULL DEFAULT 0")
        db.execute(f"UPDATE log SET sum = row_sum({_COLUMNS})")
        floor = int(db.execute("SELECT revision FROM floor").get)
        rows, recent, added = count_rows(db, floor)
        db.execute("DROP TABLE floor;" + _TOTAL)
        _finish(db, Total(store, floor, rows, recent, added))


def insert_rows(db: apsw.Connection, rows: Sequence[LogRow]) -> None:
    """Insert rows. Needs a transaction that also writes the total."""
    db.executemany("INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)


def count_rows(db: apsw.Connection, floor: int) -> tuple[int, int, int]:
    """Count rows, rows above the floor, and the sum of all sums."""
    return next(db.execute("SELECT count(*), ifnull(sum(revision > ?), 0), ifnull(sum(sum), 0) FROM log", (floor,)))


def read_total(db: apsw.Connection) -> Total:
    """Return the expected total of the log. Raises Damaged."""
    found = list(db.execute("SELECT id, floor, rows, recent, added, sum FROM total"))
    if len(found) != 1:
        raise Damaged("its total is missing")
    *columns, sum_ = found[0]
    total = Total(*columns)
    if total.sum() != sum_:
        raise Damaged("its total fails its sum")
    return total


def write_total(db: apsw.Connection, total: Total) -> None:
    """Write the total, in the transaction that changes the log."""
    db.execute("UPDATE total SET floor = ?, rows = ?, recent = ?, added = ?, sum = ?", (*total[1:], total.sum()))


def _finish(db: apsw.Connection, total: Total) -> None:
    db.execute("INSERT INTO total VALUES (?, ?, ?, ?, ?, ?)", (*total, total.sum()))
    db.execute(f"PRAGMA application_id = {_APPLICATION_ID}; PRAGMA user_version = {FORMAT}").fetchall()
