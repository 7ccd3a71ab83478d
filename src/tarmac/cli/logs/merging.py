"""Merges lines of many streams in the order of their times.

With finite streams, the earliest line of all is next, and a stream is read only when its lines are used up. Up to the
last line of the stream for which that happens first the order is known, so as many lines are sorted at once. With
followed streams later lines are unknown: a line is held for a moment for earlier ones, and a line that arrives after
that is shown on arrival.
"""

from __future__ import annotations

import asyncio
import heapq
from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from operator import attrgetter, itemgetter
from typing import Final

from tarmac.base.clock import Clock
from tarmac.cli.logs.lines import LogLine, LogSource, key_of

HOLD_SECONDS: Final = 0.25
MAX_HELD: Final = 50_000
MAX_HELD_SIZE: Final = 64 * 1024 * 1024  # characters: a line may have a million
_BATCH_SIZE: Final = 500

Shown = tuple[LogSource, LogLine]
Batches = AsyncIterator[list[LogLine]]


class _AtHand:
    """The received, unshown lines of a stream."""

    __slots__ = ("_batches", "_lines", "_source")

    def __init__(self, source: LogSource, batches: Batches) -> None:
        self._source = source
        self._batches = batches
        self._lines: list[LogLine] = []

    async def read_on(self) -> None:
        """Read the next batch when all lines are shown. An ended stream has none."""
        if not self._lines:
            self._lines = await anext(self._batches, None) or []

    def __bool__(self) -> bool:
        return bool(self._lines)

    @property
    def end(self) -> tuple[str, LogSource]:
        """Lower bound of all later lines."""
        return self._lines[-1].key, self._source

    def taken(self, end: tuple[str, LogSource]) -> list[Shown]:
        """Take the lines up to an end.

        Of lines with exactly that time, all are taken if this stream does not sort after the one that ends there.
        """
        key, last = end
        if self._lines[0].key > key:
            return []
        place = (bisect_right if self._source <= last else bisect_left)(self._lines, key, key=key_of)
        found = [(self._source, line) for line in self._lines[:place]]
        del self._lines[:place]
        return found


async def merged(streams: Iterable[tuple[LogSource, Batches]]) -> AsyncIterator[list[Shown]]:
    """Yield all lines, a few hundred or more at a time."""
    # In the order of their sources, so that a stable sort by time keeps that order among equal times.
    heads = [_AtHand(source, batches) for source, batches in sorted(streams, key=itemgetter(0))]
    # Concurrently: fifty responses one after the other would take fifty times as long to begin.
    await asyncio.gather(*(head.read_on() for head in heads))
    out: list[Shown] = []
    while heads := [head for head in heads if head]:
        first = min(heads, key=attrgetter("end"))
        end = first.end
        out += sorted((shown for head in heads for shown in head.taken(end)), key=_time_of)
        await first.read_on()
        if len(out) >= _BATCH_SIZE:
            yield out
            out = []
    if out:
        yield out


def _time_of(shown: Shown) -> str:
    return shown[1].key


class Hold:
    """Holds lines of followed streams for earlier ones."""

    def __init__(self, clock: Clock, show: Callable[[list[Shown]], None]) -> None:
        self._clock = clock
        self._show = show
        self._heap: list[tuple[str, LogSource, int, LogLine]] = []
        self._arrivals: deque[tuple[float, str]] = deque()
        self._count = self._size = 0
        self._came = asyncio.Event()
        self._begun = asyncio.Event()

    @property
    def full(self) -> bool:
        """True if readers should pause until lines are shown."""
        return len(self._heap) >= MAX_HELD or self._size >= MAX_HELD_SIZE

    def add(self, source: LogSource, lines: Sequence[LogLine]) -> None:
        """Add lines in the order of their stream."""
        if not lines:
            return
        for line in lines:
            self._count += 1
            self._size += len(line.text)
            heapq.heappush(self._heap, (line.key, source, self._count, line))
        self._arrivals.append((self._clock.monotonic() + HOLD_SECONDS, lines[-1].key))
        self._came.set()

    def begin(self) -> None:
        """Start showing: every initial stream has responded, and its lines are about to arrive."""
        self._begun.set()

    async def run(self) -> None:
        """Show lines until cancelled."""
        await self._begun.wait()
        await self._clock.sleep(HOLD_SECONDS)
        while True:
            await self._came.wait()
            while self._arrivals:
                await self._clock.sleep(self._arrivals[0][0] - self._clock.monotonic())
                self._show_due()
            self._came.clear()

    def flush(self) -> None:
        """Show everything at once: no more lines will arrive."""
        self._arrivals.clear()
        self._show([(source, line) for _, source, _, line in sorted(self._heap)])
        self._heap.clear()
        self._size = 0

    def _show_due(self) -> None:
        """Show lines that were held long enough, and every earlier one."""
        now, newest = self._clock.monotonic(), ""
        while self._arrivals and self._arrivals[0][0] <= now:
            newest = max(newest, self._arrivals.popleft()[1])
        due: list[Shown] = []
        while self._heap and self._heap[0][0] <= newest:
            _, source, _, line = heapq.heappop(self._heap)
            self._size -= len(line.text)
            due.append((source, line))
        self._show(due)
