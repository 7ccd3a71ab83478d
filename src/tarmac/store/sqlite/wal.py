"""Detects damage in the write-ahead log behind the part that SQLite replays.

SQLite replays the log up to the first frame with a wrong sum and ignores the rest silently. After a crash the rest was
being written: the frames of a batch that was never synced, and at most one compaction's beside it. Batches are synced
one after the other, so when more complete transactions than that follow the wrong frame, the frame was durable once and
was damaged later, and so were acknowledged writes.

Frames of earlier rounds and zeros follow as well; the salts tell them apart, since each round has its own.
"""

from __future__ import annotations

import struct
from pathlib import Path

FRAME = 4096 + 24  # a page and its header
_HEADER = 32
_UNSYNCED = 2  # transactions that a crash may leave unsynced: a batch, and one step of a compaction


def wal_damage(path: Path, believed: int) -> str | None:
    """Return the damage in a log of which SQLite replays `believed` frames; None when a crash explains it."""
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return None  # the marker tells whether it should exist
    header = content[:_HEADER]
    if len(header) < _HEADER or not any(header):
        # SQLite syncs the header before the first frame, so frames without one have lost it.
        return f"{path} has lost its beginning" if _commits(content, 0, None) else None
    if not _is_whole(header):
        return f"the beginning of {path} is damaged"
    lost = _commits(content, believed, header[16:24])
    if lost > _UNSYNCED:
        return (
            f"{path} is damaged in the middle: {lost} transactions lie behind frame {believed + 1}, which fails its sum"
        )
    return None


def _commits(content: bytes, first: int, salts: bytes | None) -> int:
    """Count complete transactions from a frame on: of the round with these salts, or of any round."""
    found = 0
    for at in range(_HEADER + first * FRAME, len(content) - FRAME + 1, FRAME):
        pages = content[at + 4 : at + 8]  # size of the database after a commit, else 0
        found += any(pages) and (salts is None or content[at + 8 : at + 16] == salts)
    return found


def _is_whole(header: bytes) -> bool:
    """Verify the sum that SQLite's format prescribes, in the byte order that the last bit of the magic number names."""
    order = ">" if header[3] & 1 else "<"
    one = two = 0
    for x, y in struct.iter_unpack(f"{order}II", header[:24]):
        one = (one + x + two) & 0xFFFFFFFF
        two = (two + y + one) & 0xFFFFFFFF
    return struct.unpack(">II", header[24:]) == (one, two) and header[:3] == b"\x37\x7f\x06"
