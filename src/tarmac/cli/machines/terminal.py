"""The user's terminal: raw keys, and its settings restored in every case."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import termios
import tty
from collections.abc import Callable, Generator
from contextlib import contextmanager

_CHUNK_SIZE = 4096


@contextmanager
def raw_terminal() -> Generator[bool]:
    """Set the terminal to raw mode for the duration of the block; yields False without a terminal."""
    if not sys.stdin.isatty():
        yield False
        return
    before = termios.tcgetattr(sys.stdin)
    tty.setraw(sys.stdin)
    try:
        yield True
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)


class Keys:
    """Keyboard input, or a pipe."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._file = sys.stdin.fileno()
        self._loop = asyncio.get_running_loop()
        try:
            self._loop.add_reader(self._file, self._read)
        except (OSError, PermissionError):  # a plain file, which is always ready
            while data := os.read(self._file, _CHUNK_SIZE):
                self._queue.put_nowait(data)
            self._queue.put_nowait(b"")

    async def next(self) -> bytes:
        """Return keys; empty at the end."""
        return await self._queue.get()

    def close(self) -> None:
        self._loop.remove_reader(self._file)

    def _read(self) -> None:
        try:
            data = os.read(self._file, _CHUNK_SIZE)
        except OSError:  # the terminal is gone
            data = b""
        self._queue.put_nowait(data)
        if not data:
            self.close()


@contextmanager
def notify_resizes(handler: Callable[[int, int], None]) -> Generator[None]:
    """Call with columns and lines now, and on every change."""

    def changed() -> None:
        size = shutil.get_terminal_size()
        handler(size.columns, size.lines)

    changed()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
