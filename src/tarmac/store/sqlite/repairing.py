"""Repairs a damaged store: keeps the newest intact version of each object.

The files are copied aside first. Then the kept rows go into a new database, which replaces the old one. History is
dropped, since its gaps are unknown: the new floor is above every assigned revision, so each watch is told to list
again. An object whose newest version is lost goes back to an older intact one; an object whose deletion is lost comes
back.

A kill between any two steps is harmless. The new database is complete before it is called `.repaired`, a store beside
one is not started, and the next repair continues from there.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import NamedTuple

from tarmac.store.interface import Damaged, Unavailable
from tarmac.store.sqlite.disk import sync_directory, take_lock
from tarmac.store.sqlite.file import StoreFile
from tarmac.store.sqlite.marker import marker_path, read_marker
from tarmac.store.sqlite.opening import interrupted_repair
from tarmac.store.sqlite.replacing import PARTS, take_place, write_complete
from tarmac.store.sqlite.salvaging import Salvage
from tarmac.store.sqlite.sums import LogRow


class RepairFindings(NamedTuple):
    """The reason why a store is refused, and the result of a repair."""

    sentence: str
    kept: list[LogRow]  # the newest intact version of each object
    lost: list[str]  # for people, one line each
    floor: int  # above every assigned revision


def examine(path: Path, new_id: Callable[[], str]) -> RepairFindings | None:
    """Examine a store; None when it is intact. Raises Unavailable when it is in use, missing or unreadable."""
    if not path.exists() and not marker_path(path).exists():
        raise Unavailable(f"there is no store at {path}")
    sentence = _refusal(path, new_id)
    if sentence is None:
        return None
    mark, _ = read_marker(marker_path(path))
    marked = mark.revision if mark is not None else 0
    salvage = Salvage(path, marked)
    newest = {(row.bucket, row.name): row for row in salvage.rows}
    highest = max([1, marked, salvage.floor, *(row.revision for row in salvage.rows)])
    return RepairFindings(
        sentence, [row for row in newest.values() if not row.deleted], _losses(salvage, newest, marked), highest + 1
    )


def repair(path: Path, findings: RepairFindings, new_id: Callable[[], str]) -> Path:
    """Repair the store; returns the path of the copied damaged files. Raises Unavailable, OSError."""
    lock = take_lock(path)
    try:
        aside = _copy_aside(path)
        if not interrupted_repair(path).exists():
            write_complete(interrupted_repair(path), findings.kept, findings.floor, new_id())
        take_place(path, interrupted_repair(path))
        return aside
    finally:
        os.close(lock)


def _refusal(path: Path, new_id: Callable[[], str]) -> str | None:
    """Return the reason why a server would refuse it."""
    try:
        with closing(StoreFile(path, new_id)) as file:
            newest = max((row[0] for row in file.load()), default=1)
            file.check_end(max(newest, file.floor))
    except Damaged as error:
        return str(error)
    return None


def _losses(salvage: Salvage, newest: dict[tuple[str, str], LogRow], marked: int) -> list[str]:
    lost = [_fate(row, newest.get((row.bucket, row.name))) for row in salvage.damaged]
    lost += [f"all writes at revisions {low} to {high}" for low, high in salvage.unreadable]
    unnamed = salvage.missing
    if unnamed:
        lost.append(f"{unnamed} rows of unknown objects")
    last = max([1, *(row.revision for row in (*salvage.rows, *salvage.damaged))])
    if last < marked:
        lost.append(f"every change after revision {last}; the last one was {marked}")
    return lost


def _fate(damaged: LogRow, left: LogRow | None) -> str:
    if left is None or left.deleted:
        return f"{damaged.key}: nothing of it is left"
    if left.revision > damaged.revision:
        return f"{damaged.key}: an older version; revision {left.revision} stays"
    return f"{damaged.key}: it goes back to revision {left.revision}"


def _copy_aside(path: Path) -> Path:
    """Copy the files under a name at which SQLite can open the copy, its log included."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    for suffix in PARTS:
        source = Path(f"{path}{suffix}")
        if source.exists():
            shutil.copy2(source, f"{aside}{suffix}")
    sync_directory(path.parent)
    return aside
