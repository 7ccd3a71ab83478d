"""Work over thousands of objects, done in pieces between which others have a turn.

The work is a generator that yields wherever it may pause. It must look only at what cannot change meanwhile (a page of
entries, all of one revision), or be the only one that changes it. What is over soon is done at once. Of all that takes
longer, one piece runs in each round of the loop, however many there are: the others wait in line.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from inspect import isawaitable
from typing import TypeVar, cast

from tarmac.base.clock import Clock

T = TypeVar("T")
R = TypeVar("R")

Work = Generator[None, None, T]
"""Yields where it may pause, and returns what it was for."""

_TURN = 0.01  # seconds that the pieces of one round take together, but for a step of each


class Pieces:
    """Runs such work for everybody on one loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._line = asyncio.Lock()
        self._began: float | None = None  # when the first piece of this round of the loop began

    def run(self, work: Work[T], then: Callable[[T], R | Awaitable[R]]) -> R | Awaitable[R]:
        """Do the work, then call `then` with what it returned and no pause between the two."""
        try:
            self._advance(work)
        except StopIteration as end:
            return then(end.value)
        return self._go_on(work, then)

    async def done(self, work: Work[T]) -> T:
        """The same for whoever can wait."""
        try:
            self._advance(work)
        except StopIteration as end:
            return end.value
        return await self._go_on(work, lambda value: value)

    async def _go_on(self, work: Work[T], then: Callable[[T], R | Awaitable[R]]) -> R:
        try:
            while True:
                async with self._line:
                    await asyncio.sleep(0)  # behind everything that is ready: two pieces never follow each other
                    self._advance(work)
        except StopIteration as end:
            answer = then(end.value)
        return await cast("Awaitable[R]", answer) if isawaitable(answer) else cast("R", answer)

    def _advance(self, work: Work[T]) -> None:
        """One piece: as much as this round has room for, and at least one step. Raises StopIteration at the end."""
        if self._began is None:
            self._began = self._clock.monotonic()
            asyncio.get_running_loop().call_soon(self._end_round)
        until = self._began + _TURN
        while True:
            next(work)
            if self._clock.monotonic() >= until:
                return

    def _end_round(self) -> None:
        self._began = None
