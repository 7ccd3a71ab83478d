"""Runs long CPU work cooperatively on the event loop.

The work is a generator that yields where it may be suspended. It must read only immutable data (a page of entries, all
of one revision), or be the only writer. Short work completes at once. Of all longer work, one slice runs in each loop
iteration, however many there are: the rest waits in a queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Generator
from inspect import isawaitable
from typing import TypeVar, cast

from tarmac.base.clock import Clock

T = TypeVar("T")
R = TypeVar("R")

CooperativeWork = Generator[None, None, T]
"""Yields where it may be suspended, and returns its result."""

_SLICE_SECONDS = 0.01  # seconds per loop iteration of all slices together, except for one step of each


class CooperativeRunner:
    """Runs such work for all callers on one loop."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._queue = asyncio.Lock()
        self._began: float | None = None  # start of the first slice in this loop iteration

    def run(self, work: CooperativeWork[T], then: Callable[[T], R | Awaitable[R]]) -> R | Awaitable[R]:
        """Run the work, then call `then` with its result, with no suspension between the two."""
        try:
            self._advance(work)
        except StopIteration as end:
            return then(end.value)
        return self._go_on(work, then)

    async def done(self, work: CooperativeWork[T]) -> T:
        """Run the work and return its result, for callers that can await."""
        try:
            self._advance(work)
        except StopIteration as end:
            return end.value
        return await self._go_on(work, lambda value: value)

    async def _go_on(self, work: CooperativeWork[T], then: Callable[[T], R | Awaitable[R]]) -> R:
        try:
            while True:
                async with self._queue:
                    await asyncio.sleep(0)  # behind everything that is ready: two slices never follow each other
                    self._advance(work)
        except StopIteration as end:
            answer = then(end.value)
        return await cast("Awaitable[R]", answer) if isawaitable(answer) else cast("R", answer)

    def _advance(self, work: CooperativeWork[T]) -> None:
        """Run one slice: as much as fits into this iteration, and at least one step.

        Raises StopIteration at the end.
        """
        if self._began is None:
            self._began = self._clock.monotonic()
            asyncio.get_running_loop().call_soon(self._end_iteration)
        until = self._began + _SLICE_SECONDS
        while True:
            next(work)
            if self._clock.monotonic() >= until:
                return

    def _end_iteration(self) -> None:
        self._began = None


def run_to_end(work: CooperativeWork[T]) -> T:
    """Run the work to its end in the caller's turn. For threads, and for work that is known to be short."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value
