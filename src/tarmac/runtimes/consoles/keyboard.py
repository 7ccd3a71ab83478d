"""The way of one writer's keys into one process of a machine, made when the keyboard is theirs and ended when not.

A machine that is just starting cannot be connected to yet, so that is tried until it succeeds. Keys wait meanwhile; who
types more than fits is held up, as by a guest that takes no keys. Keys of somebody who has left before they went out
have a few seconds to do so.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol

from tarmac.base.clock import Clock
from tarmac.base.tasks import Tasks

LINGER = 5.0
_PAUSE = 0.2
_ROOM = 16 * 1024


class Keys(Protocol):
    """A connection that keys go through."""

    def press(self, keys: bytes) -> None: ...

    def close(self) -> None: ...


ConnectKeys = Callable[[Callable[[bool], None], Callable[[], None]], Awaitable[Keys]]
"""Connects; is given whom to tell that keys are (not) taken, and that the connection is lost. Raises OSError."""


class Keyboard:
    """`hold` is told that the writer has to wait, and when no longer."""

    def __init__(self, connect: ConnectKeys, hold: Callable[[bool], None], clock: Clock, tasks: Tasks) -> None:
        self._connect = connect
        self._hold = hold
        self._clock = clock
        self._tasks = tasks
        self._keys: Keys | None = None
        self._waiting = bytearray()
        self._held = False
        self._closed: float | None = None  # when, if it is
        self._task = tasks.begin(self._connected(), "connecting a keyboard")

    def press(self, keys: bytes) -> None:
        """Now, or once it is connected."""
        if self._keys is not None:
            self._keys.press(keys)
            return
        self._waiting += keys
        if len(self._waiting) > _ROOM:
            self._told(True)

    def close(self) -> None:
        """The keyboard is somebody else's, or the process is over."""
        self._told(False)
        self._closed = self._clock.monotonic()
        if self._keys is not None:
            self._keys.close()
        elif not self._waiting:
            self._task.cancel()

    async def _connected(self) -> None:
        while True:
            try:
                keys = await self._connect(self._told, self._lost)
            except OSError:
                if self._closed is not None and self._clock.monotonic() >= self._closed + LINGER:
                    return
                await self._clock.sleep(_PAUSE)
                continue
            break
        waiting, self._waiting = bytes(self._waiting), bytearray()
        self._told(False)
        if waiting:
            keys.press(waiting)
        if self._closed is None:
            self._keys = keys
        else:  # they have left meanwhile
            keys.close()

    def _lost(self) -> None:
        self._keys = None
        if self._closed is None:
            self._task = self._tasks.begin(self._connected(), "connecting a keyboard")

    def _told(self, held: bool) -> None:
        if held is not self._held and self._closed is None:
            self._held = held
            self._hold(held)
