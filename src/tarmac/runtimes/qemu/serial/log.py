"""Follows one serial port into one log.

Copied bytes are punched out of the raw file later: its size and all offsets stay, and the disk blocks are freed. The
last `KEPT` bytes before the position stay, for consoles that connect or reconnect.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from tarmac.base.clock import Clock, rfc3339_micro

KEPT = 256 * 1024
SILENCE = 1.0  # seconds until an incomplete line is written
_CHUNK = 32 * 1024  # at worst one line per byte, which takes some milliseconds
_BLOCK = 64 * 1024  # a multiple of every file system's block size
_KEEP_SIZE_AND_PUNCH_HOLE = 0x01 | 0x02

MAX_LINE = 16 * 1024
"""Maximum content of one line of the log, in bytes, as in container runtimes."""

Unfinished = Literal["wait", "part", "line"]
"""Handling of bytes without a line end: wait for it, write them as a part (P), or as a line (F)."""

_DIGITS = 20
_SIZE = 3 * _DIGITS + 3


# Progress of a log, in a file of one record: `<bytes of serial.raw> <inode of the log> <bytes of the log>`.
#
# Lines go to the log first, the record second. If the agent is killed in between, the log is longer than recorded; the
# next follower truncates it to the recorded length and writes the same lines again. The opposite order would lose
# lines, and without the length it would be unknown where to truncate.
#
# The record has a fixed size and is overwritten in one call, which a kill cannot interrupt. It need not survive a power
# loss: neither does the machine.


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


@dataclass(frozen=True, slots=True)
class SerialFiles:
    """Files of one attempt: QEMU's raw output, the position in it, and the container's log (None: there is none).

    `raw` must exist before it is followed, and may belong to QEMU's user; `position` and `log` are created here.
    """

    raw: Path
    position: Path
    log: Path | None = None


class SerialLog:
    """Follows one serial port, one chunk per `poll`. Every method may raise OSError."""

    def __init__(self, files: SerialFiles, clock: Clock) -> None:
        self._files = files
        self._clock = clock
        self._raw = os.open(files.raw, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
        self._record = PositionFile(files.position)
        known = self._record.read()
        if known is not None:
            _cut_back(files.log, known)
        self.offset = known.offset if known is not None else 0  # bytes copied to the log
        self._punched = 0
        self._log = self._open_log()
        self._seen = self.end
        self._grew = clock.monotonic()

    @property
    def end(self) -> int:
        """Number of bytes written by the guest so far."""
        return os.fstat(self._raw).st_size

    @property
    def kept_from(self) -> int:
        """Offset of the first byte that can still be read."""
        return max(0, self.offset - KEPT) // _BLOCK * _BLOCK

    def read(self, offset: int, most: int) -> bytes:
        """Return bytes of the guest; `offset` must be at least `kept_from`."""
        return os.pread(self._raw, most, offset)

    def poll(self) -> bool:
        """Copy new output to the log; tell if more is available already."""
        end, now = self.end, self._clock.monotonic()
        if end != self._seen:
            self._seen, self._grew = end, now
        if end <= self.offset:
            self.offset = end  # the file was truncated by QEMU: the lost bytes cannot be recovered
            return False
        return self._take("part" if now - self._grew >= SILENCE else "wait") == _CHUNK

    def finish(self) -> bool:
        """Like `poll`, after the machine has exited: an incomplete last line is written as a line."""
        if self.end - self.offset > _CHUNK:
            self.poll()
            return True
        self._take("line")
        return False

    def reopen(self) -> None:
        """Continue in a new file, after the log was rotated."""
        old = self._log
        self._log = self._open_log()
        if old is not None:
            os.close(old)

    def close(self) -> None:
        """Close the files; the next follower continues from the persisted position."""
        self._record.close()
        for each in (self._raw, self._log):
            if each is not None:
                os.close(each)
        # A console may still call `read`, and the number of a closed descriptor is soon reused for another file.
        self._raw = -1

    def _take(self, unfinished: Unfinished) -> int:
        """Write lines to the log; return the number of bytes examined."""
        data = os.pread(self._raw, _CHUNK, self.offset)
        text, taken = log_lines(data, rfc3339_micro(self._clock.now()), unfinished)
        if not taken:
            return 0
        if self._log is not None:
            self._append(self._log, text)
        # Order: the log, then the record, then the hole: see `position`. Punched bytes are never needed again.
        self.offset += taken
        self._remember()
        self._punch()
        return len(data)

    def _append(self, log: int, text: bytes) -> None:
        """Append all or nothing: half a line on a full disk would corrupt the line written later."""
        before = os.fstat(log).st_size
        try:
            if os.write(log, text) < len(text):
                raise OSError(f"no room for the log {self._files.log}")
        except OSError:
            os.ftruncate(log, before)
            raise

    def _remember(self) -> None:
        inode, size = _inode_and_size(self._log) if self._log is not None else (0, 0)
        self._record.write(LogPosition(self.offset, inode, size))

    def _open_log(self) -> int | None:
        if self._files.log is None:
            return None
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        made = os.open(self._files.log, flags, 0o640)
        # Before the first line: a missing record must mean that the log has no lines.
        self._record.write(LogPosition(self.offset, *_inode_and_size(made)))
        return made

    def _punch(self) -> None:
        if self.kept_from > self._punched:
            _punch_hole(self._raw, self._punched, self.kept_from - self._punched)
            self._punched = self.kept_from


def _inode_and_size(file: int) -> tuple[int, int]:
    status = os.fstat(file)
    return status.st_ino, status.st_size


def _cut_back(log: Path | None, known: LogPosition) -> None:
    """Truncate lines that were logged but not recorded. The log may have been rotated meanwhile."""
    for each in (log, *log.parent.glob(f"{log.name}.*")) if log is not None else ():
        with suppress(FileNotFoundError):
            status = each.lstat()
            if status.st_ino == known.inode and status.st_size > known.size:
                os.truncate(each, known.size)


_fallocate = ctypes.CDLL(None, use_errno=True).fallocate
_fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def _punch_hole(file: int, offset: int, length: int) -> None:
    """Free disk blocks. A file system without support keeps them until the file is deleted."""
    _fallocate(file, _KEEP_SIZE_AND_PUNCH_HOLE, offset, length)


# Converts bytes of a guest to lines of a container's log, in CRI's format: `<time> stdout F|P <content>`.
#
# A line ends with LF; a CR before it is removed. A line longer than `MAX_LINE` is split into parts (P) of that length.
# The conversion is stateless: progress is a number of bytes, which can be persisted for another process to continue.


def log_lines(data: bytes, time: str, unfinished: Unfinished) -> tuple[bytes, int]:
    """Return lines of the log, and the number of bytes of `data` they cover; pass the rest again with more data."""
    whole, part = f"{time} stdout F ".encode(), f"{time} stdout P ".encode()
    out: list[bytes] = []
    taken = 0
    while True:
        # A line of maximum length may be followed by CR and LF: look two bytes further before splitting it.
        end = data.find(b"\n", taken, taken + MAX_LINE + 2)
        content = data[taken:end].removesuffix(b"\r") if end >= 0 else b""
        if end >= 0 and len(content) <= MAX_LINE:
            out += (whole, content, b"\n")
            taken = end + 1
        elif len(data) - taken >= MAX_LINE + 2:
            out += (part, data[taken : taken + MAX_LINE], b"\n")
            taken += MAX_LINE
        else:
            break
    rest = data[taken:].removesuffix(b"\r")
    if unfinished == "wait":
        return b"".join(out), taken
    head = part if unfinished == "part" else whole
    if len(rest) > MAX_LINE:  # by one byte
        out += (part, rest[:MAX_LINE], b"\n")
    if rest:
        out += (head, rest[MAX_LINE:] if len(rest) > MAX_LINE else rest, b"\n")
    # A CR may be the first half of a line end: it waits for the LF, unless the input has ended.
    return b"".join(out), taken + len(rest) if unfinished == "part" else len(data)
