"""Log lines of simulated containers: one for the start, then one a second, computed from the times alone.

Lines have CRI format, so that the agent's formatter serves them. Only the newest `MAX_LINES` exist, as after rotation.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass

from tarmac.agent.http.logs.lines import Formatter
from tarmac.agent.http.logs.options import LogOptions
from tarmac.base.clock import Clock, rfc3339

MAX_LINES = 10_000
INTERVAL = 1.0
_CHUNK = 500


@dataclass(frozen=True, slots=True)
class SimulatedLog:
    """The log of one start of a container. `ended` and `code` are None while it runs."""

    title: str  # such as `web in DFW`
    node: str
    image: str
    started: float
    ended: float | None = None
    code: int | None = None

    def count(self, now: float) -> int:
        """Return the number of lines written until `now`."""
        until = now if self.ended is None else self.ended
        return int(max(0.0, until - self.started) / INTERVAL) + 1 + (self.code is not None)

    def lines(self, first: int, last: int) -> Iterator[bytes]:
        """Yield the lines with these numbers; `last` is not included."""
        end = self.count(self.ended) - 1 if self.ended is not None and self.code is not None else None
        for number in range(first, last):
            if number == end and self.ended is not None:
                yield _line(self.ended, b"stderr", f"exiting with code {self.code}")
            elif number == 0:
                yield _line(self.started, b"stdout", f"started {self.image} on {self.node}, a simulated node")
            else:
                yield _line(self.started + number * INTERVAL, b"stdout", f"{number} s: {self.title} is running")

    async def read(self, options: LogOptions, clock: Clock, runs: Callable[[], bool]) -> AsyncIterator[bytes]:
        """Yield the client's output; with `follow`, until the container ends."""
        formatter = Formatter(options)
        written = self.count(clock.now())
        kept = MAX_LINES if options.tail is None else min(options.tail, MAX_LINES)
        position = max(0, written - kept)
        while not formatter.full:
            while position < written and not formatter.full:
                last = min(written, position + _CHUNK)
                if chunk := formatter.format(self.lines(position, last)):
                    yield chunk
                position = last
            if not options.follow or not runs():
                return
            due = self.started + written * INTERVAL
            await clock.sleep(max(0.01, due - clock.now()))
            if not runs():  # the line is due after the end
                return
            written = max(written, self.count(clock.now()))


def _line(time: float, stream: bytes, text: str) -> bytes:
    return b"%b %b F %b" % (rfc3339(time).encode(), stream, text.encode())
