"""Owner announcements to followers, the nodes that route through an address.

A follower periodically sends its known epoch to every candidate, so each candidate knows the followers before it
becomes the owner. The new owner announces itself to all followers at once, and repeats until they acknowledge. A
follower accepts announcements only from candidates of the address and only with a higher epoch than it knows, so a late
announcement of an earlier owner changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterator
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

FOLLOW: Final = 1.0  # interval of a follower's messages
FORGOTTEN: Final = 10.0  # timeout after which a silent follower is dropped
_FIRST_RETRY, _MAX_RETRY = 0.05, 0.8  # retry intervals of announcements without an acknowledgement

F = TypeVar("F", bound=Hashable)


class Follower:
    """The owner of one address as one follower knows it."""

    def __init__(self, epoch: int = 0, owner: str = "") -> None:
        self.epoch, self.owner = epoch, owner

    def told(self, sender: str, epoch: int, candidates: Collection[str]) -> bool:
        """Handle an announcement; return True if it changes the known owner."""
        if sender not in candidates or epoch <= self.epoch:
            return False
        self.epoch, self.owner = epoch, sender
        return True


@dataclass(slots=True)
class _Known:
    epoch: int
    heard: float
    told: float = float("-inf")
    pause: float = _FIRST_RETRY


class OwnerAnnouncer(Generic[F]):
    """The followers of one address as one candidate knows them; schedules announcements to them."""

    def __init__(self) -> None:
        self._followers: dict[F, _Known] = {}

    def followed(self, follower: F, epoch: int, now: float) -> None:
        """Record the epoch that a follower reports."""
        known = self._followers.get(follower)
        if known is None or known.epoch > epoch:  # a lower epoch: the follower has restarted
            self._followers[follower] = _Known(epoch, now)
        else:
            known.epoch, known.heard = epoch, now

    def due(self, epoch: int, now: float) -> Iterator[F]:
        """Yield the followers to which the owner of this epoch sends an announcement now."""
        for follower in [each for each, known in self._followers.items() if now - known.heard > FORGOTTEN]:
            del self._followers[follower]
        for follower, known in self._followers.items():
            if known.epoch < epoch and now - known.told >= known.pause:
                known.pause = _FIRST_RETRY if known.told < known.heard else min(2 * known.pause, _MAX_RETRY)
                known.told = now
                yield follower

    def is_known(self, epoch: int) -> bool:
        """Return True if every follower knows this epoch, so that no announcement is due."""
        return all(known.epoch >= epoch for known in self._followers.values())

    def restart(self) -> None:
        """Reset the retry intervals: this node has become the owner, so announcements are due at once."""
        for known in self._followers.values():
            known.told, known.pause = float("-inf"), _FIRST_RETRY
