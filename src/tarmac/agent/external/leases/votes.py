"""How voters answer one holder, for metrics: how long the last answer took, and how many never came."""

from __future__ import annotations

from collections import Counter
from itertools import takewhile
from typing import Final

from tarmac.decide.egress.lease.messages import Ask, Grant, Refuse

_PATIENCE: Final = 1.5  # seconds, after which an answer would not count any more
_MOST: Final = 10_000  # questions that wait for an answer


class Votes:
    """Questions that were asked, by voter, until they are answered or a lease has passed."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}  # by voter, of the last answer
        self.lost: Counter[str] = Counter()
        self._open: dict[tuple[str, str, int], float] = {}  # voter, address, nonce -> when

    def asked(self, voter: str, word: Ask, now: float) -> None:
        """A question goes out."""
        if len(self._open) < _MOST:
            self._open[voter, word.address, word.nonce] = now

    def answered(self, voter: str, word: Grant | Refuse, now: float) -> None:
        """An answer came, whatever it says."""
        sent = self._open.pop((voter, word.address, word.nonce), None)
        if sent is not None:
            self.seconds[voter] = now - sent

    def tick(self, now: float) -> None:
        """Count what is not answered any more. Questions are kept in the order in which they were asked."""
        late = list(takewhile(lambda key: now - self._open[key] >= _PATIENCE, self._open))
        for key in late:
            del self._open[key]
            self.lost[key[0]] += 1
