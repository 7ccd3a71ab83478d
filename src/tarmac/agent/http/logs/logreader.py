"""Reads a container's log from the requested position to its end, and then follows it.

Following continues over rotation: when the path leads to a new file, the open one is read to its end and the new one
from its start. It ends after the container has exited and all its output has been sent. The file is polled: a poll
costs two system calls, and inotify watches are scarce.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from tarmac.agent.http.logs.lines import Formatter
from tarmac.agent.http.logs.logfiles import open_log, rotated, seek_tail
from tarmac.agent.http.logs.options import LogOptions
from tarmac.base.clock import Clock

_BLOCK = 64 * 1024
MAX_LINE = 1024 * 1024  # runtimes split lines at 16 KiB; a longer one is malformed and dropped
POLL_INTERVAL = 0.1
RUNNING_CHECK_INTERVAL = 1.0  # interval of asking the runtime if the container still runs

IsRunning = Callable[[], Awaitable[bool]]


class LogReader:
    """Reads one log for one client: existing content, rotated files included, and new lines if the client follows."""

    def __init__(self, path: Path, options: LogOptions, is_running: IsRunning, clock: Clock) -> None:
        self._path = path
        self._options = options
        self._is_running = is_running
        self._clock = clock
        self._formatter = Formatter(options)
        self._files: list[BinaryIO] = []
        self._end = 0  # size of the newest file when opened: a reader that does not follow stops there
        self._rest = b""  # an incomplete line at the end of the file

    async def open(self) -> AsyncIterator[bytes]:
        """Return an iterator over the output. Raises OSError."""
        try:
            await self._open_all()
        except BaseException:
            self.close()
            raise
        return self._chunks()

    def close(self) -> None:
        """Close the files. The iterator does so itself at its end."""
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
        """Open the files to read, oldest first, each at its start position."""
        files, wanted = self._files, self._options.tail
        files.append(open_log(self._path))
        self._end = _size(files[0])
        wanted = None if wanted is None else await asyncio.to_thread(seek_tail, files[0], wanted, self._end)
        for path in reversed(rotated(self._path)):
            if wanted == 0 or self._is_too_old(path):
                break
            with suppress(FileNotFoundError):  # deleted in the meantime
                file = await asyncio.to_thread(open_log, path)
                if _same(file, files[-1]):  # rotated since it was opened
                    file.close()
                    continue
                files.insert(0, file)
                wanted = None if wanted is None else await asyncio.to_thread(seek_tail, file, wanted, _size(file))

    def _is_too_old(self, path: Path) -> bool:
        """Return True if the whole rotated file is older than the requested time."""
        since = self._options.since
        try:
            return since is not None and path.stat().st_mtime < since
        except FileNotFoundError:
            return False

    async def _to_end(self, file: BinaryIO, end: int | None = None) -> AsyncIterator[bytes]:
        """Yield the lines of a file, up to the offset `end` if given."""
        while not self._formatter.full:
            data = file.read(_BLOCK if end is None else max(0, min(_BLOCK, end - file.tell())))
            if not data:
                return
            *lines, self._rest = (self._rest + data).split(b"\n")
            if len(self._rest) > MAX_LINE:
                self._rest = b""
            chunk = self._formatter.format(lines)
            if chunk:
                yield chunk
            await asyncio.sleep(0)  # yield to other requests during a long log

    async def _follow(self) -> AsyncIterator[bytes]:
        """Follow the last file, and its successors after rotation."""
        files, asked, running = self._files, -RUNNING_CHECK_INTERVAL, True
        while running and not self._formatter.full:
            if self._clock.monotonic() >= asked + RUNNING_CHECK_INTERVAL:
                asked, running = self._clock.monotonic(), await self._is_running()
            successor = self._successor(files[-1])
            # The order matters: state and successor are read before the file. If the container had exited or the file
            # had been rotated by then, the file grows no more, and reading to its end misses nothing.
            grown = False
            async for chunk in self._to_end(files[-1]):
                grown = True
                yield chunk
            if successor is not None:
                files[-1].close()
                files[-1] = successor
                self._rest = b""
            elif running and not grown:
                await self._clock.sleep(POLL_INTERVAL)

    def _successor(self, file: BinaryIO) -> BinaryIO | None:
        with suppress(OSError):  # between rename and creation there is no file
            # The open file keeps its inode, so the number of its successor is a different one.
            if self._path.stat().st_ino != os.fstat(file.fileno()).st_ino:
                return open_log(self._path)
        return None


def _size(file: BinaryIO) -> int:
    return os.fstat(file.fileno()).st_size


def _same(one: BinaryIO, other: BinaryIO) -> bool:
    return os.fstat(one.fileno()).st_ino == os.fstat(other.fileno()).st_ino
