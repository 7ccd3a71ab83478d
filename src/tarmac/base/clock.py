"""Time, injected.

All code that waits or stamps takes a `Clock`, so a test or a simulation controls the time. `now` is the wall clock in
Unix seconds, for stamping objects; `monotonic` never goes back, for measuring intervals. Times in objects are RFC 3339
in UTC: whole seconds (`rfc3339`) or microseconds (`rfc3339_micro`).
"""

from __future__ import annotations

import asyncio
import heapq
import itertools
import re
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol


class Clock(Protocol):
    """A source of time."""

    def now(self) -> float:
        """Wall time in Unix seconds."""
        ...

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait. Zero or less yields to other tasks once."""
        ...


class SystemClock:
    """The host's own clock."""

    def now(self) -> float:
        """Wall time in Unix seconds."""
        return time.time()

    def monotonic(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        """Wait. Zero or less yields to other tasks once."""
        await asyncio.sleep(max(0.0, seconds))


class ManualClock:
    """A clock that stands still until `advance` is called.

    `advance` jumps to the new time and then wakes every sleeper that is due, earliest first. A woken task runs when the
    caller next yields to the loop, and finds the time it was advanced to.
    """

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self._now = now
        self._monotonic = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = itertools.count()

    def now(self) -> float:
        """Wall time in Unix seconds."""
        return self._now

    def monotonic(self) -> float:
        """Seconds advanced so far."""
        return self._monotonic

    async def sleep(self, seconds: float) -> None:
        """Wait until the clock has been advanced by as much."""
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        woken = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._monotonic + seconds, next(self._order), woken))
        await woken

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back. No time passes, and no sleeper is woken."""
        self._now += seconds

    def advance(self, seconds: float) -> None:
        """Advance both clocks and wake due sleepers."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self._now += seconds
        self._monotonic += seconds
        while self._sleepers and self._sleepers[0][0] <= self._monotonic:
            _, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                woken.set_result(None)


def rfc3339(seconds: float) -> str:
    """Format as `2026-11-15T12:00:00Z`; fractions are cut off."""
    return _whole_second(int(seconds // 1))


@lru_cache(maxsize=64)
def _whole_second(seconds: int) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC).isoformat()[:19]}Z"  # strftime would not pad early years


def rfc3339_micro(seconds: float) -> str:
    """Format as `2026-11-15T12:00:00.000000Z`, rounded to the nearest microsecond."""
    whole, micros = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_whole_second(whole)[:-1]}.{micros:06d}Z"


_MAX_LENGTH = 256  # characters of a time
_RFC3339 = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(Z|[+-]\d\d:\d\d)", re.ASCII)


def parse_rfc3339(text: str) -> float:
    """Return the Unix seconds of an RFC 3339 time with up to 200 fraction digits. Raises ValueError."""
    match = _RFC3339.fullmatch(text) if len(text) <= _MAX_LENGTH else None
    if match is None:
        raise ValueError(f"{text[:_MAX_LENGTH]!r} is not an RFC 3339 time")
    whole, fraction, offset = match.groups()
    base = datetime.fromisoformat(whole + offset).timestamp()
    return base + float(fraction) if fraction else base
