"""A new database in the place of another, so that a kill between any two steps is harmless.

The new one is written under a third name first and is complete, on the disk, before it is called `.repaired` or
`.restored`. Then the old log and marker go, the new marker is written, and the new database takes the old one's name.
A store beside a `.repaired` is not started: nobody has said yet that the loss may stand. One beside a `.restored` is:
whoever opens it first finishes what was begun, since all that is left to do is to give the new one its name.
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
from tarmac.store.sqlite.sums import Row, Total

PARTS = ("", "-wal", ".marker")
"""What belongs to a store besides its lock, as endings of its name."""


def restored_beside(path: Path) -> Path:
    """Where a restore has put the new database when it is complete, until it takes the place of the old one."""
    return path.with_name(f"{path.name}.restored")


def finish_restore(path: Path) -> None:
    """Go on where a restore was killed, if one was. Whoever holds the store's lock may."""
    if restored_beside(path).exists():
        take_place(path, restored_beside(path))


def write_complete(complete: Path, rows: Sequence[Row], floor: int, store: str) -> None:
    """A database with these live rows and no history, which has its name only when all of it is on the disk."""
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
    """Until the last step nobody starts on it, as the new database still has its other name."""
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
    """Other names for the files of a store that is about to be replaced: links, so they cost nothing. None: no store.

    A repetition finds those of the first time: the same file is not kept twice.
    """
    if not path.exists():
        return None
    number = 1
    while (aside := path.with_name(f"{path.name}.replaced-{number}")).exists():
        if aside.samefile(path):
            return aside
        number += 1
    for suffix in reversed(PARTS):  # the database last: with it, all of it is there
        source, kept = Path(f"{path}{suffix}"), Path(f"{aside}{suffix}")
        if source.exists():
            kept.unlink(missing_ok=True)
            os.link(source, kept)
    sync_directory(path.parent)
    return aside
