"""Exponential back-off with jitter."""

from __future__ import annotations

from tarmac.base.randomness import Randomness


class Backoff:
    """Delays that double from `first` up to `longest`, each spread by half in either direction."""

    __slots__ = ("_failures", "_first", "_longest", "_randomness")

    def __init__(self, randomness: Randomness, first: float, longest: float) -> None:
        self._randomness = randomness
        self._first = first
        self._longest = longest
        self._failures = 0

    @property
    def failures(self) -> int:
        """Failures since the last success."""
        return self._failures

    def next(self) -> float:
        """Return the delay after one more failure."""
        delay = min(self._longest, self._first * 2.0 ** min(self._failures, 60))
        self._failures += 1
        return delay * self._randomness.uniform(0.5, 1.5)

    def reset(self) -> None:
        """Restart from `first` after a success."""
        self._failures = 0
