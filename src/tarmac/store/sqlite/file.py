"""The file: a log of changes, from which both the objects and the recent history are read back.

One table, keyed by revision and therefore only ever appended to, holds every change: who, what, which revision it
replaced. `floor` splits it: of the rows up to the floor only those that were live at the floor are left (they are the
objects); of the rows above it every one is there (they are the history). A replaced row stays until the change that
replaced it sinks below the floor, so each change of the history can still be told with its previous version.

Damage. Each row has a sum and the table has a total (`sums`); a marker beside the file says how far it had come
(`marker`). All of it is checked before the file is used: until `settle`, nothing is copied, cut or removed, so that a
store that is refused lies there as it was found.

Durability. The file is in WAL mode with synchronous=NORMAL: a commit writes to the page cache only, and the caller
syncs the WAL afterwards (`sync`), which is the one thing that synchronous=FULL does in addition. Checkpoints by
themselves sync the WAL before they copy, and the database after. Opening checkpoints once, because what a killed
process committed but did not sync is readable, and must not be shown before it is durable; and it syncs the directory,
because a file whose name is lost is lost.

The WAL is filled with zeros up to the size it is going to have, and started over by checkpoints, never cut. A sync
then finds its blocks in place and writes nothing but the data; of a file that grows it must also write the new size and
the blocks' whereabouts through the file system's journal, which takes twice as long. SQLite reads a WAL up to the first
frame whose checksum is wrong, so the zeros mean nothing to it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import apsw

from tarmac.store.interface import Compacted, Damaged
from tarmac.store.sqlite.checking import check_recent, named, sound_rows
from tarmac.store.sqlite.disk import reserve, sync_directory, take_lock
from tarmac.store.sqlite.format import insert_rows, read_total, write_total
from tarmac.store.sqlite.opening import connect, explained, open_database
from tarmac.store.sqlite.replacing import finish_restore
from tarmac.store.sqlite.sums import Row, Total, is_sound
from tarmac.store.sqlite.wal import FRAME

_HISTORY = """
SELECT change.revision, change.at, change.bucket, change.name, change.created, change.previous, change.deleted,
       change.value, change.sum,
       old.revision, old.at, old.bucket, old.name, old.created, old.previous, old.deleted, old.value, old.sum
FROM log AS change LEFT JOIN log AS old ON old.revision = change.previous
WHERE change.revision > ?1 AND change.revision <= ?2 AND change.bucket = ?3 AND substr(change.name, 1, length(?4)) = ?4
ORDER BY change.revision
"""
_DROP_REPLACED = """
DELETE FROM log WHERE revision IN
(SELECT previous FROM log WHERE revision > ?1 AND revision <= ?2 AND previous > 0) RETURNING sum
"""
_DROP_DELETES = "DELETE FROM log WHERE revision > ?1 AND revision <= ?2 AND deleted RETURNING sum"


class LogFile:
    """The open file. One connection writes, on the loop; another one reads and checkpoints, in a helper thread.

    Open it, take every row from `load`, then `settle` it; before that it must not be written.
    """

    def __init__(self, path: Path, new_id: Callable[[], str]) -> None:
        """`new_id` names a store that is made here. Raises Damaged, Unavailable."""
        self.path = path
        self.newest: int  # the newest revision appended
        self._side: apsw.Connection | None = None
        self._wal = -1
        self._lock = take_lock(path)
        try:
            with explained(path):
                finish_restore(path)
                self._writer, self._marker, self._mark = open_database(path, new_id)
                self._total = read_total(self._writer)
                self.newest = self._writer.execute("SELECT ifnull(max(revision), 0) FROM log").get
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def floor(self) -> int:
        """Up to here only what was live then is left."""
        return self._total.floor

    def load(self) -> Iterator[tuple[Any, ...]]:
        """The columns of every row, oldest first. Raises Damaged when one is not what was written, or missing."""
        with explained(self.path):
            yield from sound_rows(self._writer)

    def check_end(self, newest: int) -> None:
        """What was loaded, up to `newest`, reaches as far as the marker. Raises Damaged."""
        with explained(self.path):
            if newest < self._mark.revision:
                lost = f"changes after {newest} are missing"
                raise Damaged(f"it ends at revision {newest}, but had come to {self._mark.revision}: {lost}")

    def settle(self, newest: int, wal_pages: int, on_wal_pages: Callable[[int], None]) -> None:
        """What was loaded, up to `newest`, is whole: make it durable and get ready to write. Raises Damaged."""
        self.check_end(newest)
        with explained(self.path):
            db = self._writer
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)  # from here on a tidy file is left behind
            db.set_wal_hook(lambda _db, _name, pages: on_wal_pages(pages) or apsw.SQLITE_OK)
            self._side = connect(self.path)
            self._side.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        self._wal = os.open(f"{self.path}-wal", os.O_RDWR)
        reserve(self._wal, wal_pages * FRAME * 5 // 4)  # it grows a little further while it is checkpointed
        sync_directory(self.path.parent)
        self.newest = newest
        self._marker.settle(newest)  # not before: a marker must not be ahead of what is durable

    def append(self, rows: Sequence[Row], floor: int) -> None:
        """Write one batch, and raise the floor to `floor` if that is higher, in one transaction. Not durable yet."""
        db = self._writer
        try:
            db.execute("BEGIN IMMEDIATE")
            insert_rows(db, rows)
            total = self._total.grown([row.sum for row in rows])
            if floor > self.floor:
                total = self._raise_floor(total, floor)
            write_total(db, total)
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:  # SQLite has rolled back by itself after some errors, a full disk among them
                db.execute("ROLLBACK")
            raise
        self._total = total  # not before the commit: a batch that failed must not count
        if rows:
            self.newest = rows[-1].revision
        self.newest = max(self.newest, floor)  # a floor above all rows: no revision below it is given out again

    def _raise_floor(self, total: Total, floor: int) -> Total:
        """Forget history up to `floor`."""
        db, span = self._writer, (total.floor, floor)
        sunk = int(db.execute("SELECT count(*) FROM log WHERE revision > ? AND revision <= ?", span).get)
        went = [sum_ for query in (_DROP_REPLACED, _DROP_DELETES) for (sum_,) in db.execute(query, span)]
        return total.raised(floor, sunk, went)

    def written_at(self, revision: int) -> int | None:
        """When the newest change of the history up to `revision` was made; None when there is none."""
        query = "SELECT at FROM log WHERE revision > ? AND revision <= ? ORDER BY revision DESC LIMIT 1"
        return self._writer.execute(query, (self.floor, revision)).get

    def sync(self) -> None:
        """Make everything appended so far survive a power cut. For a helper thread."""
        newest = self.newest  # before: what the loop appends while this syncs may not be covered by it
        os.fdatasync(self._wal)
        self._marker.write(newest)  # not before: a marker must not be ahead of what is durable

    def sync_marker(self) -> None:
        """Let the marker survive a power cut, too. For the side thread."""
        self._marker.sync()

    def checkpoint(self) -> tuple[int, int]:
        """Copy what no reader holds back into the database; WAL pages and how many are copied. For the side thread."""
        return self._reading().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def history(self, bucket: str, after: int, until: int, prefix: str) -> list[tuple[Row, Row | None]]:
        """Changes of a bucket, each with the row that it replaced. Raises Compacted, Damaged. For the side thread."""
        side = self._reading()
        found: list[tuple[Row, Row | None]] = []
        with explained(self.path), side:  # floor and rows of one moment
            total = read_total(side)
            if after < total.floor:
                raise Compacted(total.floor)
            check_recent(side, total)
            rows = side.execute(_HISTORY, (after, until, bucket, prefix))
            found += ((Row._make(row[:9]), Row._make(row[9:]) if row[9] is not None else None) for row in rows)
            damaged = [row for pair in found for row in pair if row is not None and not is_sound(row)]
            damaged += (row for row, old in found if row.previous and old is None)  # it is kept as long as this one
            if damaged:
                raise Damaged(named(damaged))
        return found

    def close(self) -> None:
        """Leave one tidy file behind, or, if it was never settled, everything as it was found."""
        if self._side is not None:
            os.close(self._wal)
            self._side.close()
        self._writer.close()  # the last connection checkpoints and removes the WAL
        self._marker.sync()
        self._marker.close()
        os.close(self._lock)

    def _reading(self) -> apsw.Connection:
        assert self._side is not None, "not settled"
        return self._side
