"""Replaces a store by the contents of a backup while its server is stopped.

Revisions never go back: the new store begins `FLOOR_STEP` above the newest revision of the old store and of the backup,
so every watch is told to list again. Objects that are changed on the way get new revisions above that; all other
objects keep theirs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, Protocol

from tarmac.store.backups.storecopies import copy_sqlite
from tarmac.store.interface import FLOOR_STEP, Damaged, Unavailable
from tarmac.store.sqlite.disk import take_lock
from tarmac.store.sqlite.marker import marker_path, read_marker
from tarmac.store.sqlite.replacing import (
    finish_restore,
    keep_replaced,
    restored_beside,
    take_place,
    write_complete,
)
from tarmac.store.sqlite.salvaging import Salvage
from tarmac.store.sqlite.sums import LogRow, row_sum

Key = tuple[str, str]
"""Bucket and name."""


class StoreContents(NamedTuple):
    """The present contents of the target."""

    rows: list[LogRow]  # live rows only
    newest: int  # revision; 0 where there is no store
    trouble: str  # the reason why the contents cannot be read; empty if they can


class Changed(NamedTuple):
    """An object that differs from the backup, or is not in it."""

    bucket: str
    name: str
    value: bytes


class StorePlace(Protocol):
    """The location of a store whose server is stopped."""

    async def close(self) -> None:
        """Release the lock, so that servers can start again."""
        ...

    async def present(self) -> StoreContents:
        """Return the present contents. For a damaged store, only the newest revision is known."""
        ...

    async def replace(
        self, backup: Sequence[LogRow], changed: Sequence[Changed], above: int, at: int
    ) -> tuple[int, Path | None]:
        """Prepare the new contents above a revision; returns the newest revision and the path of the old store's copy.

        Raises OSError.
        """
        ...

    async def rename(self) -> None:
        """Switch to the new contents; after a kill in the middle, the next process to open the store completes it."""
        ...


class SqlitePlace:
    """The file of a SQLite store, locked so that no server starts on it."""

    def __init__(self, path: Path, new_id: Callable[[], str]) -> None:
        """Take the lock. Raises Unavailable when a server holds it."""
        self._path = path
        self._new_id = new_id
        self._lock = take_lock(path)
        try:
            finish_restore(path)  # after a killed restore: leaves exactly one store at the path
        except BaseException:
            os.close(self._lock)
            raise

    async def close(self) -> None:
        """Release the lock, so that servers can start again."""
        os.close(self._lock)

    async def present(self) -> StoreContents:
        """Return the present contents. For a damaged store, only the newest revision is known."""
        if not self._path.exists() and not marker_path(self._path).exists():
            return StoreContents([], 0, "")
        rows: list[LogRow] = []
        try:
            newest = copy_sqlite(self._path, rows.extend)
        except Unavailable as error:
            return StoreContents([], self._highest(), str(error))
        return StoreContents(rows, newest, "")

    async def replace(
        self, backup: Sequence[LogRow], changed: Sequence[Changed], above: int, at: int
    ) -> tuple[int, Path | None]:
        """Write the new database beside the old one, and keep links to the old one."""
        rows, floor = replaced_rows(backup, changed, above + FLOOR_STEP, at)
        aside = keep_replaced(self._path)
        write_complete(restored_beside(self._path), rows, floor, self._new_id())
        return floor, aside

    async def rename(self) -> None:
        """Rename the new database into place."""
        take_place(self._path, restored_beside(self._path))

    def _highest(self) -> int:
        mark, _ = read_marker(marker_path(self._path))
        marked = mark.revision if mark is not None else 0
        with suppress(Damaged):
            salvage = Salvage(self._path, marked)
            return max([marked, salvage.floor, *(row.revision for row in salvage.rows)])
        return marked


def replaced_rows(
    backup: Iterable[LogRow], changed: Sequence[Changed], above: int, at: int
) -> tuple[list[LogRow], int]:
    """Return the rows of the new store and its newest revision."""
    kept = {(row.bucket, row.name): row for row in backup}
    newest = above
    for each in changed:
        newest += 1
        before = kept.get((each.bucket, each.name))
        created = before.created if before is not None else newest
        columns = (newest, at, each.bucket, each.name, created, 0, 0, each.value)
        kept[each.bucket, each.name] = LogRow(*columns, row_sum(*columns))
    return sorted(kept.values()), newest
