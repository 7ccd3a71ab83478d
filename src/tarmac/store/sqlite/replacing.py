"""Replaces a database by a new one, so that a kill between any two steps is harmless.

The new one is written under a third name first and is complete, on disk, before it is renamed to `.repaired` or
`.restored`. Then the old log and marker are removed, the new marker is written, and the new database gets the old one's
name. A store beside a `.repaired` is not started: the operator has not accepted the loss yet. A store beside a
`.restored` is: the next process to open it completes the rename, which is all that is left to do.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

import apsw

from tarmac.store.sqlite.disk import sync_directory
from tarmac.store.sqlite.format import create_tables, insert_rows, read_total
from tarmac.store.sqlite.marker import Marker, marker_path
from tarmac.store.sqlite.sums import LogRow, Total

PARTS = ("", "-wal", ".marker")
"""The files of a store besides its lock, as suffixes of its name."""


def restored_beside(path: Path) -> Path:
    """Return the path of a restore's complete database, until it is renamed into place."""
    return path.with_name(f"{path.name}.restored")


def finish_restore(path: Path) -> None:
    """Complete a killed restore, if there is one. The caller holds the store's lock."""
    if restored_beside(path).exists():
        take_place(path, restored_beside(path))


def write_complete(complete: Path, rows: Sequence[LogRow], floor: int, store: str) -> None:
    """Write a database with these live rows and no history; it gets its name only when all of it is on disk."""
    unfinished = complete.with_name(f"{complete.name}.unfinished")
    unfinished.unlink(missing_ok=True)
    unfinished.touch(mode=0o600)
    total = Total(store, floor, len(rows), 0, sum(row.sum for row in rows))
    with closing(apsw.Connection(str(unfinished))) as db, db:
        create_tables(db, total)
        insert_rows(db, rows)
    unfinished.rename(complete)
    sync_directory(complete.parent)


def take_place(path: Path, complete: Path) -> None:
    """Rename `complete` into place. Until the last step no server starts on it, as it still has its other name."""
    with closing(apsw.Connection(str(complete))) as db:
        total = read_total(db)
    for suffix in ("-wal", "-shm", ".marker"):  # SQLite would apply the old log to the new database
        Path(f"{path}{suffix}").unlink(missing_ok=True)
    with closing(Marker(marker_path(path), total.id)) as marker:
        marker.settle(total.floor)
    sync_directory(path.parent)
    complete.rename(path)
    sync_directory(path.parent)


def keep_replaced(path: Path) -> Path | None:
    """Link the files of a store that is about to be replaced to a second name. Returns None without a store.

    A repeated call returns the links of the first: the same file is not kept twice.
    """
    if not path.exists():
        return None
    number = 1
    while (aside := path.with_name(f"{path.name}.replaced-{number}")).exists():
        if aside.samefile(path):
            return aside
        number += 1
    for suffix in reversed(PARTS):  # the database last: it marks the set as complete
        source, kept = Path(f"{path}{suffix}"), Path(f"{aside}{suffix}")
        if source.exists():
            kept.unlink(missing_ok=True)
            os.link(source, kept)
    sync_directory(path.parent)
    return aside
