"""Durations, counted by decade: one comparison and one addition each."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

BOUNDS = (1e-5, 1e-4, 1e-3, 0.01, 0.1, 1.0, 10.0, 100.0)


class Histogram:
    """Counts of durations by decade, from ten microseconds up."""

    __slots__ = ("counts", "total")

    def __init__(self) -> None:
        self.counts = [0] * (len(BOUNDS) + 1)
        self.total = 0.0

    def observe(self, seconds: float) -> None:
        """Count one."""
        self.counts[bisect_left(BOUNDS, seconds)] += 1
        self.total += seconds

    def cumulative(self) -> Iterator[tuple[str, int]]:
        """(upper bound, count up to it), as Prometheus wants them."""
        running = 0
        for bound, count in zip((*BOUNDS, "+Inf"), self.counts, strict=True):
            running += count
            yield str(bound), running
