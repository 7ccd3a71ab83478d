"""Lines of many streams in the order of their times.

Where every stream has an end, the earliest line of all is next, and a stream is read on only when its lines are used
up. Where streams are followed nobody knows what is still to come: a line waits a moment for earlier ones, and what
comes later than that is shown when it comes.
"""

from __future__ import annotations

import asyncio
import heapq
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Final

from tarmac.base.clock import Clock
from tarmac.cli.logs.lines import Line, Source

HOLD: Final = 0.25
MOST_HELD: Final = 50_000
_AT_ONCE: Final = 500

Shown = tuple[Source, Line]
Batches = AsyncIterator[list[Line]]


class _Head:
    """The next line of a stream."""

    __slots__ = ("_batches", "_left", "line", "source")

    def __init__(self, source: Source, batches: Batches) -> None:
        self.source = source
        self.line = Line("", "", "")
        self._batches = batches
        self._left: deque[Line] = deque()

    def step(self) -> bool:
        """Go on to the next line that is at hand; whether there is one."""
        if not self._left:
            return False
        self.line = self._left.popleft()
        return True

    async def advance(self) -> bool:
        """Go on to the next line; whether there is one."""
        if not self._left:
            self._left.extend(await anext(self._batches, None) or ())
        return self.step()

    def __lt__(self, other: _Head) -> bool:
        return (self.line.key, self.source) < (other.line.key, other.source)


async def merged(streams: Sequence[tuple[Source, Batches]]) -> AsyncIterator[list[Shown]]:
    """All lines, a few hundred at a time."""
    heads = [_Head(source, batches) for source, batches in streams]
    # All at once: fifty answers one after the other would take fifty times as long to begin.
    begun = await asyncio.gather(*(head.advance() for head in heads))
    heap = [head for head, has_line in zip(heads, begun, strict=True) if has_line]
    heapq.heapify(heap)
    out: list[Shown] = []
    while heap:
        head = heap[0]
        out.append((head.source, head.line))
        if head.step() or await head.advance():
            heapq.heapreplace(heap, head)
        else:
            heapq.heappop(heap)
        if len(out) >= _AT_ONCE:
            yield out
            out = []
    if out:
        yield out


class Hold:
    """Where lines of streams that are followed wait for earlier ones."""

    def __init__(self, clock: Clock, show: Callable[[list[Shown]], None]) -> None:
        self._clock = clock
        self._show = show
        self._heap: list[tuple[str, Source, int, Line]] = []
        self._arrivals: deque[tuple[float, str]] = deque()
        self._count = 0
        self._came = asyncio.Event()
        self._begun = asyncio.Event()

    @property
    def full(self) -> bool:
        """Whether whoever reads streams should let these lines be shown first."""
        return len(self._heap) >= MOST_HELD

    def add(self, source: Source, lines: Sequence[Line]) -> None:
        """Lines have come, in the order of their stream."""
        if not lines:
            return
        for line in lines:
            self._count += 1
            heapq.heappush(self._heap, (line.key, source, self._count, line))
        self._arrivals.append((self._clock.monotonic() + HOLD, lines[-1].key))
        self._came.set()

    def begin(self) -> None:
        """Every stream there is has answered: what they hold so far is about to come."""
        self._begun.set()

    async def run(self) -> None:
        """Show lines until cancelled."""
        await self._begun.wait()
        await self._clock.sleep(HOLD)
        while True:
            await self._came.wait()
            while self._arrivals:
                await self._clock.sleep(self._arrivals[0][0] - self._clock.monotonic())
                self._show_due()
            self._came.clear()

    def flush(self) -> None:
        """Show everything at once: nothing more will come."""
        self._arrivals.clear()
        self._show([(source, line) for _, source, _, line in sorted(self._heap)])
        self._heap.clear()

    def _show_due(self) -> None:
        """Lines that have waited, and with them every earlier one."""
        now, newest = self._clock.monotonic(), ""
        while self._arrivals and self._arrivals[0][0] <= now:
            newest = max(newest, self._arrivals.popleft()[1])
        due: list[Shown] = []
        while self._heap and self._heap[0][0] <= newest:
            _, source, _, line = heapq.heappop(self._heap)
            due.append((source, line))
        self._show(due)
