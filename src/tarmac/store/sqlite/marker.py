"""`store.db.marker`: records that a store exists, its id, and its newest revision.

The database cannot show that it is missing, nor SQLite that the end of its write-ahead log is: it reads the log up to
the first wrong frame and takes the rest for the remains of a crash. So the newest acknowledged revision is also kept
beside it, and a store that ends before its marker is not started.

The marker is written after the sync of the revision it names, never before, so it may be behind and is never ahead. It
is written with each batch into the page cache, which survives the process, and synced within a second, so that only a
power cut leaves it behind. Two slots of one sector each are written in turn, each with its own sum: when the power cuts
a write in half, the other slot is left.

Revision 0 means that the store is being created: its database may not exist yet.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple
from zlib import crc32

_SLOT = 512  # a sector, which a disk writes atomically
_PREFIX = b"tarmac-store"


class Mark(NamedTuple):
    """The content of a marker."""

    id: str
    revision: int


class Marker:
    """The open file."""

    def __init__(self, path: Path, store: str) -> None:
        """Open or create it, with revision 0. Its name is durable only after the directory is synced."""
        self._id = store.encode()
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._turn = 0
        if not os.fstat(self._file).st_size:
            self.settle(0)

    def write(self, revision: int) -> None:
        """Write to the page cache; only for durable revisions. Runs in the thread that synced them."""
        os.pwrite(self._file, _slot(self._id, revision), self._turn * _SLOT)
        self._turn ^= 1

    def settle(self, revision: int) -> None:
        """Record on disk, in both slots, that the store is intact up to here."""
        # One after the other with a sync between: a power cut must not leave both half-written.
        for _ in range(2):
            self.write(revision)
            self.sync()

    def sync(self) -> None:
        """Make the marker durable."""
        os.fdatasync(self._file)

    def close(self) -> None:
        """Close the file."""
        os.close(self._file)


def marker_path(database: Path) -> Path:
    """Return the marker's path, beside the database."""
    return database.with_name(f"{database.name}.marker")


def read_marker(path: Path) -> tuple[Mark | None, int]:
    """Return the newest mark and the number of damaged slots; None without a file or a readable slot."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None, 0
    slots = [content[at : at + _SLOT] for at in (0, _SLOT)]
    marks = [mark for slot in slots if (mark := _parse(slot)) is not None]
    # A file without a second slot was cut off during creation.
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
