"""How far a log has come, in a file of one record: `<bytes of serial.raw> <inode of the log> <bytes of the log>`.

Lines go to the log first, the record second. An agent that is killed in between leaves a log that is longer than its
record says; whoever follows next cuts the log back to that length and writes the same lines again. In the other order
lines would be lost, and without the length nobody could tell what to cut.

The record has a fixed size and is written over in one call, which a kill cannot cut short. It need not survive a loss
of power: the machine does not either.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_DIGITS = 20
_SIZE = 3 * _DIGITS + 3


class Position(NamedTuple):
    """So many bytes of the serial port are in the log of this inode, which then has this size."""

    offset: int
    inode: int
    size: int


class PositionFile:
    """The record of one log."""

    def __init__(self, path: Path) -> None:
        """Raises OSError."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def read(self) -> Position | None:
        """None when nothing was written yet: then no line has gone to the log either."""
        try:
            offset, inode, size = map(int, os.pread(self._file, _SIZE, 0).split())
        except ValueError:
            return None
        return Position(offset, inode, size)

    def write(self, position: Position) -> None:
        """Raises OSError."""
        os.pwrite(self._file, (" ".join(f"{each:0{_DIGITS}d}" for each in position) + "\n").encode(), 0)

    def close(self) -> None:
        os.close(self._file)
