"""The files of one container's log: rotated ones (`0.log.<time>`, possibly `.gz`), and `0.log`.

Only regular files are opened, and symbolic links are not followed. A compressed file is unpacked into an anonymous
temporary file, so that readers always have plain seekable files.
"""

from __future__ import annotations

import gzip
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator
from io import FileIO
from pathlib import Path
from typing import BinaryIO, cast

from tarmac.agent.http.logs.lines import is_complete

_BLOCK = 64 * 1024


def rotated(path: Path) -> list[Path]:
    """Return the rotated files of a log, oldest first: their names sort by time."""
    found = path.parent.glob(f"{path.name}.*")
    return sorted(file for file in found if not file.name.endswith(".tmp"))


def open_log(path: Path) -> BinaryIO:
    """Open a log file for reading. Raises OSError."""
    # O_NONBLOCK: a FIFO under this name would block the event loop until a writer comes.
    descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    file = cast("BinaryIO", FileIO(descriptor))
    # Of the open file: by now the path may lead to a different one.
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise OSError(f"{path.name} is not a regular file")
    return _unpacked(file) if path.suffix == ".gz" else file


def _unpacked(file: BinaryIO) -> BinaryIO:
    plain = cast("BinaryIO", tempfile.TemporaryFile(buffering=0))  # noqa: SIM115 - the caller closes it
    try:
        with file, gzip.open(file) as packed:
            shutil.copyfileobj(packed, plain)
    except BaseException:
        plain.close()
        raise
    plain.seek(0)
    return plain


def seek_tail(file: BinaryIO, wanted: int, end: int) -> int:
    """Position the file before the last `wanted` lines of output up to `end`; return the number of lines it lacks.

    Partial lines count once, together; an unterminated last line counts too.
    """
    count, begin, newest = 0, end, True
    for start, line in _backward(file, end):
        if newest or is_complete(line):
            count += 1
            if count > wanted:
                file.seek(begin)
                return 0
        begin, newest = start, False
    file.seek(0)
    return wanted - count


def _backward(file: BinaryIO, end: int) -> Iterator[tuple[int, bytes]]:
    """Yield lines with their offsets, the last one first."""
    place, rest = end, b""
    while place:
        size = min(_BLOCK, place)
        place -= size
        file.seek(place)
        rest, *lines = (file.read(size) + rest).split(b"\n")
        end = place + len(rest) + sum(len(line) + 1 for line in lines)
        for line in reversed(lines):
            end -= len(line)
            if line:
                yield end, line
            end -= 1
    if rest:
        yield 0, rest
