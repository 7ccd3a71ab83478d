"""Deletes each Event one hour after its last write.

An Event does not record its last write, so the times are recorded in memory as writes pass by. For Events that existed
before the server started, the newest timestamp in the Event is used. All Events have the same time to live, so the
order of writes is the order of expiry, and finding due Events inspects no other ones.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.base.clock import Clock, parse_rfc3339
from tarmac.base.log import log
from tarmac.server.reader import decode
from tarmac.store.interface import Event, Missing, RevisionConflict, Store, Unavailable

EVENTS = "core/events"
TIME_TO_LIVE = 3600.0
_CHECK_INTERVAL = 30.0
_MAX_CONCURRENT = 200
_log = log("events")


class EventExpiry:
    """Deletes expired Events."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._written: dict[str, float] = {}  # by name, ordered by time; times of the monotonic clock
        self._end: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Record the existing Events and subscribe to writes."""
        present = [(self._seen_at(decode(entry)), entry.name) for entry in self._store.list(EVENTS).entries]
        self._written = {name: time for time, name in sorted(present)}
        # No await since the list above: an Event written in between would be in neither, and live until the next
        # start.
        self._end = self._store.subscribe(EVENTS, self._note)

    def _seen_at(self, event: JsonObject) -> float:
        """Return the monotonic time of the last write.

        A timestamp in the future comes from a wrong clock and counts as now.
        """
        return self._clock.monotonic() - max(0.0, self._clock.now() - _last_time(event))

    def stop(self) -> None:
        """Unsubscribe from writes."""
        self._end()

    def _note(self, events: Sequence[Event]) -> None:
        now = self._clock.monotonic()
        for event in events:
            # Removed before it is added: assigning to a key keeps its old place, and `_due` stops at the first young
            # Event.
            self._written.pop(event.entry.name, None)
            if event.type != "DELETED":
                self._written[event.entry.name] = now

    async def run(self) -> None:
        """Delete expired Events until cancelled."""
        while True:
            await self._clock.sleep(_CHECK_INTERVAL)
            try:
                await self.expire()
            except Unavailable as error:
                _log.warning("expired events cannot be deleted, will retry", why=str(error))

    async def expire(self) -> None:
        """Delete all expired Events, in batches of limited size so that writers of other objects are not delayed."""
        while due := list(self._due(_MAX_CONCURRENT)):
            # The first Unavailable ends the round. Deletes that have begun run on, and each of them removes its own
            # record.
            await asyncio.gather(*(self._delete(name, written) for name, written in due))

    def _due(self, limit: int) -> Iterator[tuple[str, float]]:
        oldest = self._clock.monotonic() - TIME_TO_LIVE
        for name, time in self._written.items():
            if time > oldest or limit == 0:
                return
            limit -= 1
            yield name, time

    async def _delete(self, name: str, written: float) -> None:
        entry = self._store.head(EVENTS, name)
        if entry is not None:
            with suppress(Missing, RevisionConflict):  # deleted by another writer, or written again and recorded anew
                await self._store.delete(EVENTS, name, entry.revision)
        # Remove the record only after the delete: when the store is unavailable, it keeps its place for the next round.
        if self._written.get(name) == written:
            del self._written[name]


def _last_time(event: JsonObject) -> float:
    metadata = event["metadata"]
    texts: list[Any] = [metadata.get("creationTimestamp"), event.get("lastTimestamp"), event.get("eventTime")]
    texts.append((event.get("series") or {}).get("lastObservedTime"))
    texts += [entry.get("time") for entry in metadata.get("managedFields") or ()]
    return max((parse_rfc3339(text) for text in texts if text), default=0.0)
