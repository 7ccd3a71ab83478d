"""Opens and verifies the database, or explains why it is refused.

Nothing is copied, truncated or removed on the way, so that a refused store stays as it was found: connections do not
checkpoint at close until they are configured to.

A new store begins with its marker: at revision 0 a marker allows for a database that does not exist yet or has an
earlier format, so a kill between any two steps is harmless.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw

from tarmac.base.log import log
from tarmac.store.interface import Damaged, Unavailable
from tarmac.store.sqlite.checking import UNREADABLE, check_pages
from tarmac.store.sqlite.disk import sync_directory
from tarmac.store.sqlite.format import FORMAT, create_tables, format_of, read_total, upgrade
from tarmac.store.sqlite.marker import Mark, Marker, marker_path, read_marker
from tarmac.store.sqlite.sums import Total
from tarmac.store.sqlite.wal import wal_damage

_log = log("store.sqlite")

REMEDIES = "restore a backup, or run `tarmac store repair --accept-loss`, which lists the losses"


class OpenErrors:
    """Converts errors of a file into a sentence for the operator, with the two remedies where it is damaged."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return

    def __exit__(self, _type: object, error: BaseException | None, _traceback: object) -> None:
        if isinstance(error, (Damaged, *UNREADABLE)):
            raise Damaged(f"{self._path} is damaged: {error}; {REMEDIES}") from error
        if isinstance(error, apsw.Error):
            raise Unavailable(f"cannot open {self._path}: {error}") from error


def open_database(path: Path, new_id: Callable[[], str]) -> tuple[apsw.Connection, Marker, Mark]:
    """Open the database and its marker; returns also the mark. `new_id` names a newly created store. Raises Damaged."""
    mark = _check_presence(path)
    db = connect(path)
    try:
        version = _check_structure(db, path, mark)
        if version < FORMAT:
            mark = mark or Mark(new_id(), 0)
            marker = _made_marker(path, mark.id)
            _bring_up(db, version, mark.id)
            return db, marker, mark
        if mark is None:
            raise Damaged(f"{marker_path(path)} is missing, so the rest cannot be verified")
        if read_total(db).id != mark.id:
            raise Damaged(f"{marker_path(path)} belongs to another store")
        return db, Marker(marker_path(path), mark.id), mark
    except BaseException:
        db.close()
        raise


def connect(path: Path) -> apsw.Connection:
    """Open a connection that leaves the write-ahead log alone at close."""
    if not path.exists():
        path.touch(mode=0o600)  # SQLite gives the WAL the same mode
    db = apsw.Connection(str(path))
    db.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    db.execute("PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL; PRAGMA cache_size = -1024").fetchall()
    db.execute("PRAGMA wal_autocheckpoint = 0").fetchall()
    return db


def interrupted_repair(path: Path) -> Path:
    """Return the path of a repair's complete database, until it is renamed into place."""
    return path.with_name(f"{path.name}.repaired")


def _check_presence(path: Path) -> Mark | None:
    """Read the marker and check that the database exists if the marker says so. Runs before SQLite opens anything.

    SQLite creates a missing database, and removes the write-ahead log of an empty one.
    """
    if interrupted_repair(path).exists():
        raise Damaged("a repair of it was interrupted")
    mark, damaged_slots = read_marker(marker_path(path))
    if mark is None and damaged_slots:
        raise Damaged(f"{marker_path(path)} cannot be read")
    if damaged_slots:
        _log.warning("one slot of the marker is damaged and will be rewritten", path=str(marker_path(path)))
    empty = not path.exists() or not path.stat().st_size
    if empty and mark is not None and mark.revision:
        raise Damaged(f"it is missing, but had come to revision {mark.revision}")
    wal = Path(f"{path}-wal")
    if empty and mark is None and wal.exists() and wal.stat().st_size:
        raise Damaged(f"it is missing, but {wal} is there")
    return mark


def _check_structure(db: apsw.Connection, path: Path, mark: Mark | None) -> int:
    """Return the file's format after checking its pages and its write-ahead log."""
    try:
        version = format_of(db, path)
    except Unavailable as error:
        if mark is None or not mark.revision:
            raise
        raise Damaged(f"by its marker it is a store of format {FORMAT}, but {error}") from error
    if mark is not None and mark.revision and version < FORMAT:
        raise Damaged(f"by its marker it has format {FORMAT}, by itself {version}")
    believed, _ = db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
    if (damage := wal_damage(Path(f"{path}-wal"), max(believed, 0))) is not None:
        raise Damaged(damage)
    if version:
        check_pages(db)
    return version


def _made_marker(path: Path, store: str) -> Marker:
    marker = Marker(marker_path(path), store)
    sync_directory(path.parent)  # its name must be durable before a database that needs it
    return marker


def _bring_up(db: apsw.Connection, version: int, store: str) -> None:
    if version:
        upgrade(db, store)
        _log.info(f"store upgraded from format {version} to {FORMAT}")
    else:
        create_tables(db, Total(store, 1, 0, 0, 0))
