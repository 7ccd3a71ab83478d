"""Progress of a log, in a file of one record: `<bytes of serial.raw> <inode of the log> <bytes of the log>`.

Lines go to the log first, the record second. If the agent is killed in between, the log is longer than recorded; the
next follower truncates it to the recorded length and writes the same lines again. The opposite order would lose lines,
and without the length it would be unknown where to truncate.

The record has a fixed size and is overwritten in one call, which a kill cannot interrupt. It need not survive a power
loss: neither does the machine.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_DIGITS = 20
_SIZE = 3 * _DIGITS + 3


class LogPosition(NamedTuple):
    """`offset` bytes of the serial port are in the log with this inode, which then has this size."""

    offset: int
    inode: int
    size: int


class PositionFile:
    """The record of one log."""

    def __init__(self, path: Path) -> None:
        """Open or create the file. Raises OSError."""
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)

    def read(self) -> LogPosition | None:
        """Return the position; None before the first write, when no line has gone to the log either."""
        try:
            offset, inode, size = map(int, os.pread(self._file, _SIZE, 0).split())
        except ValueError:
            return None
        return LogPosition(offset, inode, size)

    def write(self, position: LogPosition) -> None:
        """Overwrite the record in one call. Raises OSError."""
        os.pwrite(self._file, (" ".join(f"{each:0{_DIGITS}d}" for each in position) + "\n").encode(), 0)

    def close(self) -> None:
        os.close(self._file)
