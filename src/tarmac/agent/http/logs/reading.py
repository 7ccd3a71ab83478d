"""A container's log from the wanted place to its end, and then as it grows.

Following goes on over rotation: when the path leads to another file than the one that is open, the open one is read to
its end and the other from its beginning. It ends when the container has ended and everything it wrote is out. There is
no notification: a look costs two system calls, and inotify is scarce.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tarmac.agent.http.logs.files import open_log, rotated, seek_tail
from tarmac.agent.http.logs.lines import Formatter
from tarmac.agent.http.logs.options import LogOptions
from tarmac.base.clock import Clock

_BLOCK = 64 * 1024
LONGEST_LINE = 1024 * 1024  # runtimes cut lines at 16 KiB; what does not end is no line, and is not collected
LOOK_SECONDS = 0.1
ASK_SECONDS = 1.0  # how often the runtime is asked whether the container still runs

IsRunning = Callable[[], Awaitable[bool]]


class LogReader:
    """Reads one log for one client: what is there, rotated files included, and what comes while the client follows."""

    def __init__(self, path: Path, options: LogOptions, is_running: IsRunning, clock: Clock) -> None:
        self._path = path
        self._options = options
        self._is_running = is_running
        self._clock = clock
        self._formatter = Formatter(options)
        self._files: list[BinaryIO] = []
        self._end = 0  # of the newest file when it was opened: a reader that does not follow gets nothing after it
        self._rest = b""  # a line that is not complete in the file yet

    async def open(self) -> AsyncIterator[bytes]:
        """What the reader gets, piece by piece. Raises OSError."""
        try:
            await self._open_all()
        except BaseException:
            self.close()
            raise
        return self._chunks()

    def close(self) -> None:
        """Let go of the files. Not needed behind the last piece."""
        for file in self._files:
            file.close()

    async def _chunks(self) -> AsyncIterator[bytes]:
        try:
            for file in self._files:
                self._rest = b""
                last = file is self._files[-1] and not self._options.follow
                async for chunk in self._to_end(file, self._end if last else None):
                    yield chunk
            if self._options.follow:
                async for chunk in self._follow():
                    yield chunk
            last = self._formatter.format([self._rest])
            if last:
                yield last
        finally:
            self.close()

    async def _open_all(self) -> None:
        """The files to read, oldest first, each placed where reading begins."""
        files, wanted = self._files, self._options.tail
        files.append(open_log(self._path))
        self._end = _size(files[0])
        wanted = None if wanted is None else await asyncio.to_thread(seek_tail, files[0], wanted, self._end)
        for path in reversed(rotated(self._path)):
            if wanted == 0 or self._is_too_old(path):
                break
            with suppress(FileNotFoundError):  # collected in the meantime
                file = await asyncio.to_thread(open_log, path)
                if _same(file, files[-1]):  # rotated since we opened it
                    file.close()
                    continue
                files.insert(0, file)
                wanted = None if wanted is None else await asyncio.to_thread(seek_tail, file, wanted, _size(file))

    def _is_too_old(self, path: Path) -> bool:
        """Whether all of an earlier file is from before the time asked for."""
        since = self._options.since
        try:
            return since is not None and path.stat().st_mtime < since
        except FileNotFoundError:
            return False

    async def _to_end(self, file: BinaryIO, end: int | None = None) -> AsyncIterator[bytes]:
        """The lines of a file, up to the offset `end` if one is given."""
        while not self._formatter.full:
            data = file.read(_BLOCK if end is None else max(0, min(_BLOCK, end - file.tell())))
            if not data:
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > LONGEST_LINE:
                self._rest = b""
            chunk = self._formatter.format(lines)
            if chunk:
                yield chunk
            await asyncio.sleep(0)  # a long log must not hold up everybody else

    async def _follow(self) -> AsyncIterator[bytes]:
        """The last file is the one that is being written; what is opened in its place is put there."""
        files, asked, running = self._files, -ASK_SECONDS, True
        while running and not self._formatter.full:
            if self._clock.monotonic() >= asked + ASK_SECONDS:
                asked, running = self._clock.monotonic(), await self._is_running()
            successor = self._successor(files[-1])
            # In this order: what is not running, or not the newest file, will not grow behind our back.
            grown = False
            async for chunk in self._to_end(files[-1]):
                grown = True
                yield chunk
            if successor is not None:
                files[-1].close()
                files[-1] = successor
                self._rest = b""
            elif running and not grown:
                await self._clock.sleep(LOOK_SECONDS)

    def _successor(self, file: BinaryIO) -> BinaryIO | None:
        with suppress(OSError):  # between two files there is none
            if self._path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                return open_log(self._path)
        return None


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _same(one: BinaryIO, other: BinaryIO) -> bool:
    return os.fstat(one.fileno()).st_ino == os.fstat(other.fileno()).st_ino
