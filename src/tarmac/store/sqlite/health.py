"""Whether the disk is full or slow, for health checks.

Full: there is next to no room. Slow: a sync takes longer than a second. A refused batch or a slow sync is also told for
a moment after it happened; all of it heals by itself.
"""

from __future__ import annotations

from pathlib import Path

from tarmac.base.clock import Clock
from tarmac.store.sqlite.disk import lacks_room

_SLOW_SECONDS = 1.0
_REMEMBERED_SECONDS = 10.0  # a bad disk is not bad with every batch, and what asks comes every few seconds


class DiskHealth:
    """Told of syncs and refused batches; asked by `/readyz`."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._started: float | None = None  # of the sync under way
        self._slow: tuple[float, float] | None = None  # the last slow sync: when it ended, how long it took
        self._refused: tuple[float, str] | None = None  # the last batch, if it was: when, and why

    def sync_started(self) -> None:
        """A batch is written, and on its way to the disk."""
        self._started = self._clock.monotonic()

    def sync_ended(self) -> float:
        """It is there, or failed; how long that took."""
        now = self._clock.monotonic()
        took = now - (self._started if self._started is not None else now)
        if took >= _SLOW_SECONDS:
            self._slow = now, took
        self._started = None
        self._refused = None
        return took

    def refused(self, why: str) -> None:
        """The disk took no batch."""
        self._refused = self._clock.monotonic(), why

    def check(self) -> str | None:
        """What is wrong with the disk."""
        if lacks_room(self._path.parent):
            return f"the disk of {self._path} is full"
        now = self._clock.monotonic()
        if self._refused is not None and now - self._refused[0] < _REMEMBERED_SECONDS:
            return self._refused[1]
        return self._slowness(now)

    def _slowness(self, now: float) -> str | None:
        if self._started is not None and now - self._started >= _SLOW_SECONDS:
            return f"the disk of {self._path} is slow: a sync has been under way for {now - self._started:.1f} s"
        if self._slow is not None and now - self._slow[0] < _REMEMBERED_SECONDS:
            return f"the disk of {self._path} is slow: a sync took {self._slow[1]:.1f} s"
        return None
