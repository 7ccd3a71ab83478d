"""Standard input and output of a simulated process; with a terminal, a line discipline in between.

As in a kernel, a terminal keeps at most `QUEUE` bytes of unread keys and drops more. Without a terminal the client is
paused instead.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable

QUEUE = 4096
MAX_UNREAD = 64 * 1024
_KEYS = re.compile(rb"[\x20-\x7e\x80-\xff]+|\x1b(?:[\[O][0-9;]*[@-~]?)?|\r\n?|.", re.DOTALL)
_ERASE = b"\b \b"

Put = Callable[[bytes, bool], None]
"""Sends output; True for standard error."""


class Terminal:
    """Both directions of one process. `interrupted` is called for Ctrl-C."""

    def __init__(self, tty: bool, put: Put, hold: Callable[[bool], None] = lambda _held: None) -> None:
        self.tty = tty
        self.interrupted: Callable[[], None] = lambda: None
        self._put = put
        self._hold = hold
        self._held = False
        self._line = bytearray()  # not yet ended by Enter
        self._input = bytearray()  # ready to be read
        self._ended = False
        self._arrived = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()

    # The client's side.

    def feed(self, data: bytes) -> None:
        """Take input of the client."""
        if self._ended:
            return
        if not self.tty:
            self._input += data
            self._balance()
            self._arrived.set()
            return
        for key in _KEYS.findall(data[: max(0, QUEUE - len(self._line) - len(self._input))]):
            self._press(key)

    def end(self) -> None:
        """End the input."""
        self._ended = True
        self._arrived.set()

    def reopen(self) -> None:
        """Accept input again after Ctrl-D, for the next reader of the same terminal."""
        self._ended = False

    def accept(self, wanted: bool) -> None:
        """Pause or resume the output: the client does (not) accept data."""
        (self._writable.set if wanted else self._writable.clear)()

    def _press(self, key: bytes) -> None:
        if key in (b"\r", b"\n", b"\r\n"):
            self._put(b"\r\n", False)
            self._input += self._line + b"\n"
            self._line.clear()
            self._arrived.set()
        elif key in (b"\x7f", b"\b"):
            if self._line:
                while self._line and self._line[-1] & 0xC0 == 0x80:  # the rest of a UTF-8 character
                    self._line.pop()
                if self._line:
                    self._line.pop()
                self._put(_ERASE, False)
        elif key == b"\x15":
            self._put(_ERASE * len(self._line.decode(errors="replace")), False)
            self._line.clear()
        elif key == b"\x03":
            self._put(b"^C\r\n", False)
            self._line.clear()
            self._input.clear()
            self.interrupted()
        elif key == b"\x04":
            if not self._line:
                self.end()
        elif key >= b"\x20":
            self._line += key
            self._put(key, False)

    # The process's side.

    async def read_line(self) -> bytes | None:
        """Return the next line without its end; None at the end of the input."""
        while (end := self._input.find(b"\n")) < 0:
            if self._ended:
                rest = bytes(self._input)
                self._input.clear()
                return rest or None
            if len(self._input) > MAX_UNREAD:  # one line, longer than any that is accepted
                end = len(self._input) - 1
                break
            await self._wait()
        line = bytes(self._input[:end])
        del self._input[: end + 1]
        self._balance()
        return line

    async def read_all(self, most: int) -> bytes:
        """Return the input up to its end, but at most the first `most` bytes."""
        found = bytearray()
        while True:
            found += self._input[: most - len(found)]
            self._input.clear()
            self._balance()
            if self._ended:
                return bytes(found)
            await self._wait()

    async def write(self, data: bytes, error: bool = False) -> None:
        """Send output, once the client accepts it."""
        await self._writable.wait()
        self._put(data.replace(b"\n", b"\r\n") if self.tty else data, error and not self.tty)

    async def _wait(self) -> None:
        self._arrived.clear()
        await self._arrived.wait()

    def _balance(self) -> None:
        full = len(self._input) > MAX_UNREAD
        if full != self._held:
            self._held = full
            self._hold(full)
