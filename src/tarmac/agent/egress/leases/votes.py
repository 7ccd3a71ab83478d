"""Metrics of voters as one candidate sees them: duration of the last answer, and number of lost answers."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from typing import Final

_TIMEOUT: Final = 1.5  # seconds after which an answer would not count any more
_MAX_OPEN: Final = 10_000  # unanswered requests


class VoterMetrics:
    """Requests by voter, until they are answered or time out."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}  # by voter, of the last answer
        self.lost: Counter[str] = Counter()
        self._open: dict[tuple[str, str, int], float] = {}  # voter, address, nonce -> when

    def requested(self, voter: str, address: str, nonce: int, now: float) -> None:
        """Record a request about one address or, if `address` is empty, about many."""
        if len(self._open) < _MAX_OPEN:
            self._open[voter, address, nonce] = now

    def answered(self, voter: str, address: str, nonce: int, now: float) -> None:
        """Record an answer, positive or negative."""
        sent = self._open.pop((voter, address, nonce), None)
        if sent is not None:
            self.seconds[voter] = now - sent

    def tick(self, now: float) -> None:
        """Count requests that timed out. Requests are stored in the order in which they were sent."""
        late = list(takewhile(lambda key: now - self._open[key] >= _TIMEOUT, self._open))
        for key in late:
            del self._open[key]
            self.lost[key[0]] += 1
