"""How nodes that send by an address learn who carries it: they say which epoch they know, and the owner answers.

A follower says so to every candidate now and then, so that each of them knows beforehand whom to tell. Whoever becomes
the owner tells all of them at once, and again until they say that they know. A follower believes a candidate of the
address only, and only a higher epoch than it knows: a late word of an earlier owner changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

FOLLOW: Final = 1.0  # between two words of a follower
FORGOTTEN: Final = 10.0  # a follower who was not heard of for so long is told nothing
_FIRST, _LONGEST = 0.05, 0.8  # pauses between two words to one who has not answered

F = TypeVar("F", bound=Hashable)


class Follower:
    """What one node knows about who carries one address."""

    def __init__(self, epoch: int = 0, owner: str = "") -> None:
        self.epoch, self.owner = epoch, owner

    def told(self, sender: str, epoch: int, candidates: Collection[str]) -> bool:
        """Somebody says that he carries it; whether that is news."""
        if sender not in candidates or epoch <= self.epoch:
            return False
        self.epoch, self.owner = epoch, sender
        return True


@dataclass(slots=True)
class _Known:
    epoch: int
    heard: float
    told: float = float("-inf")
    pause: float = _FIRST


class Herald(Generic[F]):
    """Who sends by one address, as one candidate knows it."""

    def __init__(self) -> None:
        self._followers: dict[F, _Known] = {}

    def followed(self, follower: F, epoch: int, now: float) -> None:
        """A follower says what it knows."""
        known = self._followers.get(follower)
        if known is None or known.epoch > epoch:  # the latter has begun anew, and knows less than before
            self._followers[follower] = _Known(epoch, now)
        else:
            known.epoch, known.heard = epoch, now

    def due(self, epoch: int, now: float) -> Iterator[F]:
        """Whom the owner of this epoch tells at this moment."""
        for follower in [each for each, known in self._followers.items() if now - known.heard > FORGOTTEN]:
            del self._followers[follower]
        for follower, known in self._followers.items():
            if known.epoch < epoch and now - known.told >= known.pause:
                known.pause = _FIRST if known.told < known.heard else min(2 * known.pause, _LONGEST)
                known.told = now
                yield follower

    def restart(self) -> None:
        """The address has come here: whoever was told of something else is told at once."""
        for known in self._followers.values():
            known.told, known.pause = float("-inf"), _FIRST
