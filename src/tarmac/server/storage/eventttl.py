"""Events do not stay: an hour after its last write an Event is deleted.

Nothing in an Event says when it was last written, so the time is noted as writes pass by; for those that were there
before the server started, the newest time inside stands in. All have the same time to live, so the order of writes is
the order of ends, and looking for what is due looks at nothing else.
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
from tarmac.store.interface import Conflict, Event, Missing, Store, Unavailable

EVENTS = "core/events"
TIME_TO_LIVE = 3600.0
_BEAT = 30.0
_AT_ONCE = 200
_log = log("events")


class EventExpiry:
    """Deletes Events whose time is over."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._written: dict[str, float] = {}  # by name, in the order of the times, which are of the monotonic clock
        self._end: Callable[[], None] = lambda: None

    def start(self) -> None:
        """Take note of what is there and of what is written from now on."""
        present = [(self._seen_at(decode(entry)), entry.name) for entry in self._store.list(EVENTS).entries]
        self._written = {name: time for time, name in sorted(present)}
        self._end = self._store.subscribe(EVENTS, self._note)

    def _seen_at(self, event: JsonObject) -> float:
        """One that is stamped with a time to come was stamped by a clock that was wrong, and counts as new."""
        return self._clock.monotonic() - max(0.0, self._clock.now() - _last_time(event))

    def stop(self) -> None:
        """Take note of nothing more."""
        self._end()

    def _note(self, events: Sequence[Event]) -> None:
        now = self._clock.monotonic()
        for event in events:
            self._written.pop(event.entry.name, None)
            if event.type != "DELETED":
                self._written[event.entry.name] = now

    async def run(self) -> None:
        """Delete what is due until cancelled."""
        while True:
            await self._clock.sleep(_BEAT)
            try:
                await self.expire()
            except Unavailable as error:
                _log.warning("events could not be deleted", why=str(error))

    async def expire(self) -> None:
        """Delete what is due now, a limited number at a time so that writers of other things get their turn."""
        while due := list(self._due(_AT_ONCE)):
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
            with suppress(Missing, Conflict):  # deleted by somebody else, or written again and noted anew
                await self._store.delete(EVENTS, name, entry.revision)
        # Forgotten only now: a store that is not available leaves it noted, in its place, for the next round.
        if self._written.get(name) == written:
            del self._written[name]


def _last_time(event: JsonObject) -> float:
    metadata = event["metadata"]
    texts: list[Any] = [metadata.get("creationTimestamp"), event.get("lastTimestamp"), event.get("eventTime")]
    texts.append((event.get("series") or {}).get("lastObservedTime"))
    texts += [entry.get("time") for entry in metadata.get("managedFields") or ()]
    return max((parse_rfc3339(text) for text in texts if text), default=0.0)
