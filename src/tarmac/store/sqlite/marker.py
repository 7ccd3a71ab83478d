"""`store.db.marker`: that there is a store, which one, and how far it had come.

The database cannot tell that it is missing, nor SQLite that the end of its write-ahead log is: it reads the log up to
the first frame that is wrong and takes what follows for the remains of a crash. So the newest acknowledged revision is
also kept beside it, and a store that ends before its marker is not started.

The marker is written after the sync of what it speaks of, never before, so it may be behind and is never ahead. It is
written with each batch into the page cache, which a killed process leaves behind, and synced within a second, so that
only a power cut finds it late. Two slots of a sector each take turns, each with its own sum: of a write that the power
cuts in half the other one is left.

Revision 0 means that the store is being made: its database may not be there yet.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

_SLOT = 512  # a sector: what a disk writes whole or not at all
_PREFIX = b"tarmac-store"


class Mark(NamedTuple):
    """What a marker says."""

    id: str
    revision: int


class Marker:
    """The open file."""

    def __init__(self, path: Path, store: str) -> None:
        """Opens it, or makes it, with revision 0. Its name is not on the disk before the directory is synced."""
        self._id = store.encode()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._turn = 0
        if not os.fstat(self._file).st_size:
            self.settle(0)

    def write(self, revision: int) -> None:
        """Into the page cache; only for what is durable. For the thread that made it so."""
        os.pwrite(self._file, _slot(self._id, revision), self._turn * _SLOT)
        self._turn ^= 1

    def settle(self, revision: int) -> None:
        """The store is whole up to here: both slots say so, on the disk."""
        # One after the other with a sync between: a power cut must not find both half-written.
        for _ in range(2):
            self.write(revision)
            self.sync()

    def sync(self) -> None:
        """Onto the disk."""
        os.fdatasync(self._file)

    def close(self) -> None:
        """Let go."""
        os.close(self._file)


def marker_path(database: Path) -> Path:
    """Beside the database."""
    return database.with_name(f"{database.name}.marker")


def read_marker(path: Path) -> tuple[Mark | None, int]:
    """The newest mark, None if there is no file or none that can be read, and how many slots are damaged."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None, 0
    slots = [content[at : at + _SLOT] for at in (0, _SLOT)]
    marks = [mark for slot in slots if (mark := _parse(slot)) is not None]
    # A file without a second slot was cut off while it was made.
    damaged = sum(1 for slot in slots if slot and _parse(slot) is None) + (len(content) > 2 * _SLOT)
    return max(marks, key=lambda mark: mark.revision, default=None), damaged


def _slot(store: bytes, revision: int) -> bytes:
    text = b"%b %b %d" % (_PREFIX, store, revision)
    body = text.ljust(_SLOT - 10)
    return b"%b %08x\n" % (body, crc32(body))


def _parse(slot: bytes) -> Mark | None:
    body, sum_ = slot[: _SLOT - 10], slot[_SLOT - 10 :]
    if len(slot) != _SLOT or sum_ != b" %08x\n" % crc32(body):
        return None
    _, store, revision = body.split()
    return Mark(store.decode(), int(revision))
