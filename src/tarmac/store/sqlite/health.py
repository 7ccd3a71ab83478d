"""Health checks for a full or slow disk.

Full: almost no free space. Slow: a sync takes longer than a second. A refused batch or a slow sync is also reported for
a moment after it happened; both recover without intervention.
"""

from __future__ import annotations

from pathlib import Path

from tarmac.base.clock import Clock
from tarmac.store.sqlite.disk import lacks_room

_SLOW_SECONDS = 1.0
_SLOW_RETENTION = 10.0  # a bad disk does not fail every batch, and health checks come only every few seconds


class DiskHealth:
    """Records syncs and refused batches; read by `/readyz`."""

    def __init__(self, path: Path, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._started: float | None = None  # of the sync in progress
        self._slow: tuple[float, float] | None = None  # the last slow sync: end time, duration
        self._refused: tuple[float, str] | None = None  # the last batch, if it was refused: time, reason

    def sync_started(self) -> None:
        """Record the start of a sync."""
        self._started = self._clock.monotonic()

    def sync_ended(self) -> float:
        """Record the end of a sync, successful or not; returns its duration."""
        now = self._clock.monotonic()
        took = now - (self._started if self._started is not None else now)
        if took >= _SLOW_SECONDS:
            self._slow = now, took
        self._started = None
        self._refused = None
        return took

    def refused(self, why: str) -> None:
        """Record that the disk refused a batch."""
        self._refused = self._clock.monotonic(), why

    def check(self) -> str | None:
        """Return the disk's current problem."""
        if lacks_room(self._path.parent):
            return f"the disk of {self._path} is full"
        now = self._clock.monotonic()
        if self._refused is not None and now - self._refused[0] < _SLOW_RETENTION:
            return self._refused[1]
        return self._slowness(now)

    def _slowness(self, now: float) -> str | None:
        if self._started is not None and now - self._started >= _SLOW_SECONDS:
            return f"the disk of {self._path} is slow: a sync has been under way for {now - self._started:.1f} s"
        if self._slow is not None and now - self._slow[0] < _SLOW_RETENTION:
            return f"the disk of {self._path} is slow: a sync took {self._slow[1]:.1f} s"
        return None
