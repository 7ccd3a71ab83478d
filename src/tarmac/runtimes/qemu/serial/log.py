"""One serial port followed into one log.

What was taken is punched out of the file a while later: its size and all offsets stay as they are, the disk gets its
blocks back. The last `KEPT` bytes before the position stay, for consoles that come (back) to read them.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tarmac.base.clock import Clock, rfc3339_micro
from tarmac.runtimes.qemu.serial.lines import Unfinished, log_lines
from tarmac.runtimes.qemu.serial.position import Position, PositionFile

KEPT = 256 * 1024
SILENCE = 1.0  # seconds after which a line without an end is shown
_CHUNK = 32 * 1024  # a line for each byte of it takes some milliseconds
_BLOCK = 64 * 1024  # a multiple of every file system's block
_KEEP_SIZE_AND_PUNCH_HOLE = 0x01 | 0x02


@dataclass(frozen=True, slots=True)
class SerialFiles:
    """Files of one attempt: what QEMU appends to, how far that has come, and the container's log (None: there is none).

    `raw` exists before it is followed, and may belong to QEMU's user; `position` and `log` are made here.
    """

    raw: Path
    position: Path
    log: Path | None = None


class SerialLog:
    """Follows it, a piece with each `look`. Every call may raise OSError."""

    def __init__(self, files: SerialFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._raw = os.open(files.raw, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._record = PositionFile(files.position)
        known = self._record.read()
        if known is not None:
            _cut_back(files.log, known)
        self.offset = known.offset if known is not None else 0  # what is in the log
        self._punched = 0
        self._log = self._open_log()
        self._seen = self.end
        self._grew = clock.monotonic()

    @property
    def end(self) -> int:
        """How many bytes the guest has written so far."""
        return os.fstat(self._raw).st_size

    @property
    def kept_from(self) -> int:
        """The first byte that can still be read."""
        return max(0, self.offset - KEPT) // _BLOCK * _BLOCK

    def read(self, offset: int, most: int) -> bytes:
        """Bytes of the guest, from `kept_from` on."""
        return os.pread(self._raw, most, offset)

    def look(self) -> bool:
        """Write what is new to the log; whether there is more of it already."""
        end, now = self.end, self._clock.monotonic()
        if end != self._seen:
            self._seen, self._grew = end, now
        if end <= self.offset:
            self.offset = end  # it can only have been cut off by QEMU: there is nothing to go back to
            return False
        return self._take("part" if now - self._grew >= SILENCE else "wait") == _CHUNK

    def finish(self) -> bool:
        """As `look`, for a machine that is over: what it said last is a line, with or without an end."""
        if self.end - self.offset > _CHUNK:
            self.look()
            return True
        self._take("line")
        return False

    def reopen(self) -> None:
        """Go on in a new file under the log's name, after the old one was moved away."""
        old = self._log
        self._log = self._open_log()
        if old is not None:
            os.close(old)

    def close(self) -> None:
        """Let go of the files; whoever follows next goes on from here."""
        self._record.close()
        for each in (self._raw, self._log):
            if each is not None:
                os.close(each)
        # A console may still ask: the number of a closed file is soon that of somebody else's.
        self._raw = -1

    def _take(self, unfinished: Unfinished) -> int:
        """Write lines to the log; how many bytes were looked at for them."""
        data = os.pread(self._raw, _CHUNK, self.offset)
        text, taken = log_lines(data, rfc3339_micro(self._clock.now()), unfinished)
        if not taken:
            return 0
        if self._log is not None:
            self._append(self._log, text)
        # The log first, then the record, then the hole: see `position`. What was punched is never needed again.
        self.offset += taken
        self._remember()
        self._punch()
        return len(data)

    def _append(self, log: int, text: bytes) -> None:
        """All or nothing: half a line of a full disk would stand in the way of the whole one later."""
        before = os.fstat(log).st_size
        try:
            if os.write(log, text) < len(text):
                raise OSError(f"no room for the log {self._files.log}")
        except OSError:
            os.ftruncate(log, before)
            raise

    def _remember(self) -> None:
        inode, size = _inode_and_size(self._log) if self._log is not None else (0, 0)
        self._record.write(Position(self.offset, inode, size))

    def _open_log(self) -> int | None:
        if self._files.log is None:
            return None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        made = os.open(self._files.log, flags, 0o640)
        # Before the first line: a record that is missing must mean that there are no lines.
        self._record.write(Position(self.offset, *_inode_and_size(made)))
        return made

    def _punch(self) -> None:
        if self.kept_from > self._punched:
            _punch_hole(self._raw, self._punched, self.kept_from - self._punched)
            self._punched = self.kept_from


def _inode_and_size(file: int) -> tuple[int, int]:
    status = os.fstat(file)
    return status.st_ino, status.st_size


def _cut_back(log: Path | None, known: Position) -> None:
    """Take back lines that went to the log without being recorded. It may have been set aside meanwhile."""
    for each in (log, *log.parent.glob(f"{log.name}.*")) if log is not None else ():
        with suppress(FileNotFoundError):
            status = each.lstat()
            if status.st_ino == known.inode and status.st_size > known.size:
                os.truncate(each, known.size)


_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def _punch_hole(file: int, offset: int, length: int) -> None:
    """Give blocks back. A file system that cannot keeps them until the machine goes."""
    _fallocate(file, _KEEP_SIZE_AND_PUNCH_HOLE, offset, length)
