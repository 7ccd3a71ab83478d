"""The terminal of whoever types: every key as it is pressed, and back to normal whatever happens."""

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

_PIECE = 4096


@contextmanager
def raw_terminal() -> Generator[bool]:
    """Keys uncooked for as long as the block lasts; whether there is a terminal at all."""
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
    """What is typed, or comes by a pipe."""

    def __init__(self) -> None:
        self._queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._file = sys.stdin.fileno()
        self._loop = asyncio.get_running_loop()
        try:
            self._loop.add_reader(self._file, self._read)
        except (OSError, PermissionError):  # a plain file, which is always ready
            while data := os.read(self._file, _PIECE):
                self._queue.put_nowait(data)
            self._queue.put_nowait(b"")

    async def next(self) -> bytes:
        """Some keys; empty when there will be none."""
        return await self._queue.get()

    def close(self) -> None:
        self._loop.remove_reader(self._file)

    def _read(self) -> None:
        try:
            data = os.read(self._file, _PIECE)
        except OSError:  # the terminal has gone
            data = b""
        self._queue.put_nowait(data)
        if not data:
            self.close()


@contextmanager
def told_of_sizes(tell: Callable[[int, int], None]) -> Generator[None]:
    """Call with columns and lines now, and whenever they change."""

    def changed() -> None:
        size = shutil.get_terminal_size()
        tell(size.columns, size.lines)

    changed()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
