"""The file: a log of changes, from which both the objects and the recent history are read back.

One table, keyed by revision and therefore only ever appended to, holds every change: who, what, which revision it
replaced. `floor` splits it: of the rows up to the floor only those that were live at the floor are left (they are the
objects); of the rows above it every one is there (they are the history). A replaced row stays until the change that
replaced it sinks below the floor, so each change of the history can still be told with its previous version.

Durability. The file is in WAL mode with synchronous=NORMAL: a commit writes to the page cache only, and the caller
syncs the WAL afterwards (`sync`), which is the one thing that synchronous=FULL does in addition. Checkpoints by
themselves sync the WAL before they copy, and the database after. Opening checkpoints once, because what a killed
process committed but did not sync is readable, and must not be shown before it is durable; and it syncs the directory,
because a file whose name is lost is lost.

The WAL is filled with zeros up to the size it is going to have, and started over by checkpoints, never cut. A sync
then finds its blocks in place and writes nothing but the data; of a file that grows it must also write the new size and
the blocks' whereabouts through the file system's journal, which takes twice as long. SQLite reads a WAL up to the first
frame whose checksum is wrong, so the zeros mean nothing to it.

Versions: `user_version` is FORMAT. A program opens files of its own or an older format (and then raises it, in the
transaction that converts the tables) and refuses newer ones, so going back is by restoring a copy.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

import apsw

from tarmac.base.log import log
from tarmac.store.interface import Compacted, Unavailable

_log = log("store.sqlite")

FORMAT = 1
_FRAME = 4096 + 24  # a page in the WAL and its header
_ZEROS = bytes(1 << 20)
_APPLICATION_ID = 0x5441524D  # "TARM": tells our files from other SQLite files

_SCHEMA = f"""
BEGIN IMMEDIATE;
CREATE TABLE log (
    revision INTEGER PRIMARY KEY,
    at       INTEGER NOT NULL,  -- Unix seconds
    bucket   TEXT    NOT NULL,
    name     TEXT    NOT NULL,
    created  INTEGER NOT NULL,  -- revision of the create
    previous INTEGER NOT NULL,  -- revision that this one replaced, 0 for a create
    deleted  INTEGER NOT NULL,
    value    BLOB               -- NULL: a delete whose last state is the previous value
) STRICT;
CREATE TABLE floor (revision INTEGER NOT NULL) STRICT;
INSERT INTO floor VALUES (1);
PRAGMA application_id = {_APPLICATION_ID};
PRAGMA user_version = {FORMAT};
COMMIT;
"""
_INSERT = "INSERT INTO log VALUES (?, ?, ?, ?, ?, ?, ?, ?)"
_LOAD = "SELECT revision, bucket, name, created, previous, deleted, value FROM log ORDER BY revision"
_HISTORY = """
SELECT change.revision, change.name, change.created, change.deleted, change.value, old.revision, old.value
FROM log AS change LEFT JOIN log AS old ON old.revision = change.previous
WHERE change.revision > ?1 AND change.revision <= ?2 AND change.bucket = ?3 AND substr(change.name, 1, length(?4)) = ?4
ORDER BY change.revision
"""
_DROP_REPLACED = """
DELETE FROM log WHERE revision IN
(SELECT previous FROM log WHERE revision > ?1 AND revision <= ?2 AND previous > 0)
"""
_DROP_DELETES = "DELETE FROM log WHERE revision > ?1 AND revision <= ?2 AND deleted"


class Row(NamedTuple):
    """One change, as it is inserted."""

    revision: int
    at: int
    bucket: str
    name: str
    created: int
    previous: int
    deleted: int
    value: bytes | None


class LogFile:
    """The open file. One connection writes, on the loop; another one reads and checkpoints, in a helper thread."""

    def __init__(self, path: Path, wal_pages: int, on_wal_pages: Callable[[int], None]) -> None:
        self.path = path
        self._lock = _lock(path)
        try:
            with _explained(path):
                self._writer = _connect(path)
                _check_format(self._writer, path)
                self._writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
                self._writer.set_wal_hook(lambda _db, _name, pages: on_wal_pages(pages) or apsw.SQLITE_OK)
                self._side = _connect(path)
                self.floor = int(self._writer.execute("SELECT revision FROM floor").get)
            self._wal = os.open(f"{path}-wal", os.O_RDWR)
            _reserve(self._wal, wal_pages * _FRAME * 5 // 4)  # it grows a little further while it is checkpointed
            _sync_directory(path.parent)
        except BaseException:
            os.close(self._lock)
            raise

    def load(self) -> Iterator[tuple[int, str, str, int, int, int, bytes | None]]:
        """Every row, oldest first: revision, bucket, name, created, previous, deleted, value."""
        with _explained(self.path):
            yield from self._writer.execute(_LOAD)

    def append(self, rows: Iterable[Row], floor: int) -> None:
        """Write one batch, and raise the floor to `floor` if that is higher, in one transaction. Not durable yet."""
        db = self._writer
        try:
            db.execute("BEGIN IMMEDIATE")
            db.executemany(_INSERT, rows)
            if floor > self.floor:
                db.execute(_DROP_REPLACED, (self.floor, floor))
                db.execute(_DROP_DELETES, (self.floor, floor))
                db.execute("UPDATE floor SET revision = ?", (floor,))
            db.execute("COMMIT")
        except BaseException:
            if db.in_transaction:
                db.execute("ROLLBACK")
            raise
        self.floor = max(self.floor, floor)

    def written_at(self, revision: int) -> int | None:
        """When the newest change of the history up to `revision` was made; None when there is none."""
        query = "SELECT at FROM log WHERE revision > ? AND revision <= ? ORDER BY revision DESC LIMIT 1"
        return self._writer.execute(query, (self.floor, revision)).get

    def sync(self) -> None:
        """Make everything appended so far survive a power cut. For a helper thread."""
        os.fdatasync(self._wal)

    def checkpoint(self) -> tuple[int, int]:
        """Copy what no reader holds back into the database; WAL pages and how many are copied. For the side thread."""
        return self._side.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)

    def history(
        self, bucket: str, after: int, until: int, prefix: str
    ) -> list[tuple[int, str, int, int, bytes | None, int | None, bytes | None]]:
        """Changes of a bucket: revision, name, created, deleted, value, previous revision and value. Side thread.

        Raises Compacted.
        """
        self._side.execute("BEGIN")  # floor and rows of one moment
        try:
            floor = int(self._side.execute("SELECT revision FROM floor").get)
            if after < floor:
                raise Compacted(floor)
            return list(self._side.execute(_HISTORY, (after, until, bucket, prefix)))
        finally:
            self._side.execute("COMMIT")

    def close(self) -> None:
        """Leave one tidy file behind."""
        os.close(self._wal)
        self._side.close()
        self._writer.close()  # the last connection checkpoints and removes the WAL
        os.close(self._lock)


class _explained:  # noqa: N801 - reads as a statement
    """Turns SQLite's errors while opening and loading into texts for the operator."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, apsw.NotADBError | apsw.CorruptError):
            advice = "move it away and restore a copy, or start with an empty store"
            raise Unavailable(f"{self._path} is damaged or not a SQLite file ({error}): {advice}") from error
        if isinstance(error, apsw.Error):
            raise Unavailable(f"cannot open {self._path}: {error}") from error


def _connect(path: Path) -> apsw.Connection:
    if not path.exists():
        path.touch(mode=0o600)  # SQLite gives the WAL the same mode
    db = apsw.Connection(str(path))
    db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -1024").fetchall()
    db.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    return db


def _check_format(db: apsw.Connection, path: Path) -> None:
    application = db.execute("PRAGMA application_id").get
    version = db.execute("PRAGMA user_version").get
    if not application and not db.execute("SELECT count(*) FROM sqlite_schema").get:
        db.execute(_SCHEMA)
    elif application != _APPLICATION_ID:
        raise Unavailable(f"{path} is a SQLite file of another program")
    elif version > FORMAT:
        raise Unavailable(
            f"{path} has format {version}, this program knows formats up to {FORMAT}: it was written by a newer version"
        )


def _lock(path: Path) -> int:
    """Two servers on one file would each believe their own memory; the kernel drops the lock when its holder dies.

    A file of its own, since closing any descriptor of the database would drop SQLite's locks.
    """
    try:
        lock = os.open(f"{path}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise Unavailable(f"cannot open {path}.lock: {error.strerror}") from error
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        holder = os.pread(lock, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(lock)
        raise Unavailable(f"{path} is in use by another server (process {holder})") from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
    return lock


def _reserve(file: int, size: int) -> None:
    """Fill an empty file with zeros; where there is no room for them it stays empty and grows as it is needed."""
    try:
        for offset in range(0, size, len(_ZEROS)):
            os.pwrite(file, _ZEROS[: size - offset], offset)
        os.fdatasync(file)
    except OSError as error:
        os.ftruncate(file, 0)
        _log.warning("no room to reserve the write-ahead log: writes will take longer", reason=error.strerror)


def _sync_directory(folder: Path) -> None:
    directory = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
