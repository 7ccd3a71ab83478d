"""A read-only resource computed from another one: every object passes through a function that drops most of it.

The projection implements a store's `Reads` for one bucket, so get, list, watch, selectors and tables work on projected
objects and never see hidden fields. A projected object keeps the name and the version of its source. A change that
leaves the projected object equal produces no event; bookmarks still advance the version, since they count all buckets.

Each version is projected once for all lists and watches. Results are cached up to a number of bytes, the oldest evicted
first. A list of thousands of uncached objects is projected in batches that yield to the event loop in between.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice

from tarmac.store.interface import Entry, Event, Page, Store, Subscriber, splice, unsplice

Project = Callable[[str, bytes], bytes]
"""Maps the key and the stored bytes of an object to the projected value."""

_MAX_CACHED = 64 << 20
_ENTRY_COST = 300  # bytes of overhead per object: entry, key, dictionary slots
_CHUNK_SIZE = 128  # objects projected before yielding to the event loop


class Projection:
    """The projection of one bucket, as `Reads`. The `bucket` arguments are ignored."""

    def __init__(self, store: Store, source: str, project: Project, most_kept: int = _MAX_CACHED) -> None:
        self._store = store
        self._source = source
        self._project = project
        self._most_kept = most_kept
        self._kept: dict[tuple[int, str], Entry] = {}
        self._size = 0
        self._batch: tuple[Sequence[Event], list[Event]] = ((), [])  # the last batch, shared by all its subscribers
        self.made = 0  # versions that were projected

    @property
    def revision(self) -> int:
        """The newest visible revision, of all buckets."""
        return self._store.revision

    def fresh(self) -> Awaitable[None] | None:
        """Return None if memory is current, else an awaitable to await before a consistent read."""
        return self._store.fresh()

    def prepared(self, prefix: str, newest: bool) -> Awaitable[None] | None:
        """Return None if `prefix` can be listed at once, else an awaitable to await before listing.

        Awaiting it fills the cache in batches, so that the list does not block the event loop.
        """
        fresh = self._store.fresh() if newest else None
        if fresh is not None:
            return self._prepare(prefix, fresh)
        missing = self._missing(prefix)
        for entry in islice(missing, _CHUNK_SIZE):
            self._shown(entry)
        return None if next(missing, None) is None else self._prepare(prefix)

    def get(self, bucket: str, name: str) -> Entry | None:
        """Return the visible version."""
        entry = self._store.get(self._source, name)
        return None if entry is None else self._shown(entry)

    def list(self, bucket: str, prefix: str = "", *, after: str = "", limit: int = 0, revision: int = 0) -> Page:
        """Like a store's `list`. Raises Compacted, FutureRevision."""
        page = self._store.list(self._source, prefix, after=after, limit=limit, revision=revision)
        return Page([self._shown(entry) for entry in page.entries], page.revision, page.remaining)

    def since(self, bucket: str, revision: int, prefix: str = "") -> Sequence[Event]:
        """Like a store's `since`. Raises Compacted, FutureRevision."""
        return self._events(self._store.since(self._source, revision, prefix))

    async def history(self, bucket: str, revision: int, prefix: str = "") -> Sequence[Event]:
        """Like a store's `history`. Raises Compacted, FutureRevision, Unavailable."""
        events, until = await self._store.history(self._source, revision, prefix), self._store.revision
        await self._in_pieces(event.entry for event in events)
        # The store advanced during the pauses: add those events. No await may follow before the caller subscribes, or
        # events between the two would be lost.
        return self._events([*events, *self._store.since(self._source, until, prefix)])

    def subscribe(self, bucket: str, subscriber: Subscriber) -> Callable[[], None]:
        """Deliver every later batch that changes a projected object; return the function that unsubscribes."""

        def deliver(events: Sequence[Event]) -> None:
            shown = self._shared(events)
            # An empty batch from the store means lost events. A batch that only became empty here is dropped.
            if shown or not events:
                subscriber(shown)

        return self._store.subscribe(self._source, deliver)

    def _shared(self, events: Sequence[Event]) -> list[Event]:
        """Project a batch for its first subscriber; the store hands the same batch to all of them."""
        if not events:  # the store was reloaded: a lost revision may have been assigned again
            self._kept, self._size = {}, 0
        if self._batch[0] is not events:
            self._batch = (events, self._events(events))
        return self._batch[1]

    def _events(self, events: Sequence[Event]) -> list[Event]:
        return [shown for event in events if (shown := self._event(event)) is not None]

    def _event(self, event: Event) -> Event | None:
        previous = None if event.previous is None else self._shown(event.previous)
        entry = self._shown(event.entry)
        if event.type == "MODIFIED" and previous is not None and unsplice(previous) == unsplice(entry):
            return None
        return Event(event.type, event.bucket, entry, previous)

    def _shown(self, entry: Entry) -> Entry:
        key = (entry.revision, entry.name)
        shown = self._kept.get(key)
        if shown is None:
            shown = self._make(entry)
            self._keep(key, shown)
        return shown

    def _make(self, entry: Entry) -> Entry:
        self.made += 1
        raw = splice(self._project(entry.name, entry.raw), entry.revision)
        return Entry(entry.name, entry.revision, entry.created, raw)

    def _keep(self, key: tuple[int, str], shown: Entry) -> None:
        self._kept[key] = shown
        self._size += len(shown.raw) + _ENTRY_COST
        # Ends at an empty cache at the latest: an object larger than the limit evicts itself as well.
        while self._size > self._most_kept:
            oldest = next(iter(self._kept))
            self._size -= len(self._kept.pop(oldest).raw) + _ENTRY_COST

    def _missing(self, prefix: str) -> Iterator[Entry]:
        entries = self._store.list(self._source, prefix).entries
        return (entry for entry in entries if (entry.revision, entry.name) not in self._kept)

    async def _prepare(self, prefix: str, fresh: Awaitable[None] | None = None) -> None:
        if fresh is not None:
            await fresh
        # Objects written during the pauses are missing from this listing; the list that follows projects them at once.
        await self._in_pieces(self._missing(prefix))

    async def _in_pieces(self, entries: Iterable[Entry]) -> None:
        for count, entry in enumerate(entries, 1):
            self._shown(entry)
            if count % _CHUNK_SIZE == 0:
                await asyncio.sleep(0)
