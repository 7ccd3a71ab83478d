"""Connection for one writer's keys to one process of a machine, opened and closed with the ownership of the keyboard.

A starting machine does not accept connections yet, so connecting is retried. Keys are buffered meanwhile; a writer that
exceeds the buffer is paused, as by a guest that does not read. Keys not yet sent when the writer leaves are sent
if the connection succeeds within 5 s.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks

LINGER = 5.0
_PAUSE = 0.2
_MAX_WAITING_BYTES = 16 * 1024


class GuestKeyboard(Protocol):
    """A connection to the guest's keyboard."""

    def press(self, keys: bytes) -> None: ...

    def close(self) -> None: ...


ConnectKeys = Callable[[Callable[[bool], None], Callable[[], None]], Awaitable[GuestKeyboard]]
"""Connects. Its arguments are called when the guest stops or resumes reading, and on disconnect. Raises OSError."""


class Keyboard:
    """The keyboard of one writer. `hold` pauses and resumes the writer."""

    def __init__(self, connect: ConnectKeys, hold: Callable[[bool], None], clock: Clock, tasks: Tasks) -> None:
        self._connect = connect
        self._hold = hold
        self._clock = clock
        self._tasks = tasks
        self._keys: GuestKeyboard | None = None
        self._waiting = bytearray()
        self._held = False
        self._closed: float | None = None  # time of `close`
        self._task = tasks.begin(self._connected(), "connecting a keyboard")

    def press(self, keys: bytes) -> None:
        """Send keys, or buffer them until connected."""
        if self._keys is not None:
            self._keys.press(keys)
            return
        self._waiting += keys
        if len(self._waiting) > _MAX_WAITING_BYTES:
            self._on_granted(True)

    def close(self) -> None:
        """Close the connection: the keyboard has a new owner, or the process has exited."""
        self._on_granted(False)
        self._closed = self._clock.monotonic()
        if self._keys is not None:
            self._keys.close()
        elif not self._waiting:
            self._task.cancel()

    async def _connected(self) -> None:
        while True:
            try:
                keys = await self._connect(self._on_granted, self._lost)
            except OSError:
                if self._closed is not None and self._clock.monotonic() >= self._closed + LINGER:
                    return
                await self._clock.sleep(_PAUSE)
                continue
            break
        waiting, self._waiting = bytes(self._waiting), bytearray()
        self._on_granted(False)
        if waiting:
            keys.press(waiting)
        if self._closed is None:
            self._keys = keys
        else:  # closed while connecting
            keys.close()

    def _lost(self) -> None:
        self._keys = None
        if self._closed is None:
            self._task = self._tasks.begin(self._connected(), "connecting a keyboard")

    def _on_granted(self, held: bool) -> None:
        if held is not self._held and self._closed is None:
            self._held = held
            self._hold(held)
