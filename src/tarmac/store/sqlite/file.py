"""The log file: both the objects and the recent history are read back from it.

One table, keyed by revision and therefore append-only, holds every change: its key, its value and the revision it
replaced. `floor` splits it: of the rows up to the floor only those that were live at the floor are left (they are the
objects); of the rows above it every one is there (they are the history). A replaced row stays until the change that
replaced it sinks below the floor, so each change of the history can be returned with its previous version.

Damage. Each row has a sum and the table has a total (`sums`); a marker beside the file records its newest revision
(`marker`). All of it is checked before the file is used: until `settle`, nothing is copied, truncated or removed, so
that a refused store stays as it was found.

Durability. The file is in WAL mode with synchronous=NORMAL: a commit writes to the page cache only, and the caller
syncs the WAL afterwards (`sync`), which is the one thing that synchronous=FULL does in addition. Checkpoints by
themselves sync the WAL before they copy, and the database after. Opening checkpoints once, because commits that a
killed process did not sync are readable, and must not be shown before they are durable; and it syncs the directory,
because a file whose name is lost is lost.

The WAL is filled with zeros up to its expected size, and restarted by checkpoints, never truncated. A sync then finds
its blocks allocated and writes nothing but the data; for a growing file it must also write the new size and the block
map through the file system's journal, which takes twice as long. SQLite reads a WAL up to the first frame with a wrong
checksum, so it ignores the zeros.
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
from tarmac.store.sqlite.opening import OpenErrors, connect, open_database
from tarmac.store.sqlite.replacing import finish_restore
from tarmac.store.sqlite.sums import LogRow, Total, is_sound
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


class StoreFile:
    """The open file. One connection writes, on the loop; a second one reads and checkpoints, in a helper thread.

    Open it, take every row from `load`, then `settle` it; before that it must not be written.
    """

    def __init__(self, path: Path, new_id: Callable[[], str]) -> None:
        """Open and lock; `new_id` gives the id of a newly created store. Raises Damaged, Unavailable."""
        self.path = path
        self.newest: int  # the newest revision appended
        self._side: apsw.Connection | None = None
        self._wal = -1
        self._lock = take_lock(path)
        try:
            with OpenErrors(path):
                finish_restore(path)
                self._writer, self._marker, self._mark = open_database(path, new_id)
                self._total = read_total(self._writer)
                self.newest = self._writer.execute("SELECT ifnull(max(revision), 0) FROM log").get
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def floor(self) -> int:
        """Of the rows up to here, only those live at this revision are left."""
        return self._total.floor

    def load(self) -> Iterator[tuple[Any, ...]]:
        """Yield the columns of every row, oldest first. Raises Damaged for a changed or missing row."""
        with OpenErrors(self.path):
            yield from sound_rows(self._writer)

    def check_end(self, newest: int) -> None:
        """Check that the loaded rows, up to `newest`, reach the marker's revision. Raises Damaged."""
        with OpenErrors(self.path):
            if newest < self._mark.revision:
                lost = f"changes after {newest} are missing"
                raise Damaged(f"it ends at revision {newest}, but had come to {self._mark.revision}: {lost}")

    def settle(self, newest: int, wal_pages: int, on_wal_pages: Callable[[int], None]) -> None:
        """Make the loaded rows, up to `newest`, durable and prepare for writing. Raises Damaged."""
        self.check_end(newest)
        with OpenErrors(self.path):
            db = self._writer
            db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)  # from here on the last connection checkpoints at close
            db.set_wal_hook(lambda _db, _name, pages: on_wal_pages(pages) or apsw.SQLITE_OK)
            self._side = connect(self.path)
            self._side.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 0)
        self._wal = os.open(f"{self.path}-wal", os.O_RDWR)
        reserve(self._wal, wal_pages * FRAME * 5 // 4)  # it grows a little further during a checkpoint
        sync_directory(self.path.parent)
        self.newest = newest
        self._marker.settle(newest)  # last: a marker must not be ahead of the durable state

    def append(self, rows: Sequence[LogRow], floor: int) -> None:
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
        self._total = total  # after the commit: a failed batch must not count
        if rows:
            self.newest = rows[-1].revision
        self.newest = max(self.newest, floor)  # a floor above all rows: no revision below it is assigned again

    def _raise_floor(self, total: Total, floor: int) -> Total:
        """Drop history up to `floor`."""
        db, span = self._writer, (total.floor, floor)
        sunk = int(db.execute("SELECT count(*) FROM log WHERE revision > ? AND revision <= ?", span).get)
        went = [sum_ for query in (_DROP_REPLACED, _DROP_DELETES) for (sum_,) in db.execute(query, span)]
        return total.raised(floor, sunk, went)

    def written_at(self, revision: int) -> int | None:
        """Return the time of the newest change of the history up to `revision`; None without one."""
        query = "SELECT at FROM log WHERE revision > ? AND revision <= ? ORDER BY revision DESC LIMIT 1"
        return self._writer.execute(query, (self.floor, revision)).get

    def sync(self) -> None:
        """Make everything appended so far survive a power cut. Runs in a helper thread."""
        newest = self.newest  # read first: rows that the loop appends during the sync may not be covered by it
        os.fdatasync(self._wal)
        self._marker.write(newest)  # last: a marker must not be ahead of the durable state

    def sync_marker(self) -> None:
        """Make the marker survive a power cut, too. Runs in the side thread."""
        self._marker.sync()

    def checkpoint(self) -> tuple[int, int]:
        """Copy WAL pages that no reader blocks into the database; returns WAL pages and copied pages. In the side
        thread.
        """
        return self._reading().wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def history(self, bucket: str, after: int, until: int, prefix: str) -> list[tuple[LogRow, LogRow | None]]:
        """Return changes of a bucket, each with the row it replaced. Raises Compacted, Damaged. In the side thread."""
        side = self._reading()
        found: list[tuple[LogRow, LogRow | None]] = []
        with OpenErrors(self.path), side:  # one transaction: floor and rows are consistent
            total = read_total(side)
            if after < total.floor:
                raise Compacted(total.floor)
            check_recent(side, total)
            rows = side.execute(_HISTORY, (after, until, bucket, prefix))
            found += ((LogRow._make(row[:9]), LogRow._make(row[9:]) if row[9] is not None else None) for row in rows)
            damaged = [row for pair in found for row in pair if row is not None and not is_sound(row)]
            # the replaced row is kept as long as this one
            damaged += (row for row, old in found if row.previous and old is None)
            if damaged:
                raise Damaged(named(damaged))
        return found

    def close(self) -> None:
        """Close with the WAL merged into the file; a file that was never settled stays as it was found."""
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
