"""Everything that ever happened in a world, in order: the changes of its store, each at its moment.

The store itself tells, so nothing that a faulty connection hides is missing. `digest` is the whole history as one
number: two runs of a seed must agree on it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

from tarmac.base.clock import Clock
from tarmac.store.interface import Event
from tarmac.store.memory import MemoryStore


class Moment(NamedTuple):
    """One change, and when it became visible."""

    time: float
    event: Event


class HistoryStore(MemoryStore):
    """A store that tells observers of every change, after subscribers and before its writer hears of it."""

    def __init__(self, *, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.observers: list[Callable[[Moment], None]] = []
        self._digest = sha256()

    @property
    def digest(self) -> str:
        """The history so far."""
        return self._digest.hexdigest()

    def publish(self, events: Sequence[Event]) -> None:
        """Make a batch visible and tell of it."""
        super().publish(events)
        now = self._clock.monotonic()
        for event in events:
            entry = event.entry
            self._digest.update(f"{now!r} {event.type} {event.bucket} {entry.name} ".encode())
            self._digest.update(entry.raw)
            for observe in self.observers:
                observe(Moment(now, event))
