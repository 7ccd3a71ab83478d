"""The bound of epochs: no node may use up the numbers of an address."""

from __future__ import annotations

from typing import Final

MAX_CHANGES: Final = 100  # of an address's owner, per second; an election takes 0.3 s
_EPOCHS_OF_ANY_CLOCK: Final = 1_000_000  # plausible also for a node whose clock stands at 1970


def highest_epoch(now: float) -> int:
    """Return the highest epoch that an address can have reached at a Unix time.

    Every node continues above the highest epoch it has seen, so one huge number of a hostile node would leave none
    above it, and the address could never be owned again. Owners cannot change more often than `MAX_CHANGES` per second
    since 1970. The bound needs no record and grows faster than honest epochs: the highest lie still leaves room.
    """
    return round(max(now, 0.0) * MAX_CHANGES) + _EPOCHS_OF_ANY_CLOCK
