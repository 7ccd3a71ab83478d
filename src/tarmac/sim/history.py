"""The complete history of a simulated cluster: all changes of its store, in order and with their time.

The store itself reports them, so changes hidden by a faulty connection are included. `digest` is a hash of the whole
history: two runs with the same seed must have the same digest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from hashlib import sha256
from typing import NamedTuple

from tarmac.base.clock import Clock
from tarmac.store.interface import Event
from tarmac.store.memory import MemoryStore


class Moment(NamedTuple):
    """One change, and the time at which it became visible."""

    time: float
    event: Event


class HistoryStore(MemoryStore):
    """A store that calls observers with every change, after subscribers and before the writer's call returns."""

    def __init__(self, *, clock: Clock) -> None:
        super().__init__(clock=clock)
        self.observers: list[Callable[[Moment], None]] = []
        self._digest = sha256()

    @property
    def digest(self) -> str:
        """Hash of the history so far."""
        return self._digest.hexdigest()

    def publish(self, events: Sequence[Event]) -> None:
        """Publish a batch and call the observers."""
        super().publish(events)
        now = self._clock.monotonic()
        for event in events:
            entry = event.entry
            self._digest.update(f"{now!r} {event.type} {event.bucket} {entry.name} ".encode())
            self._digest.update(entry.raw)
            for observe in self.observers:
                observe(Moment(now, event))
