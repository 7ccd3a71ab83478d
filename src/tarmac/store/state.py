"""The visible state in memory: every driver reads from it and publishes into it.

A bucket keeps its entries twice, by name and in name order, so a get is two dictionary look-ups and a list is a slice.
Its recent events are kept in revision order; a global window bounds their number and bytes over all buckets. An event
that leaves the window raises the bucket's `floor`: changes up to and including that revision are no longer known. An
event carries the version it replaced, so the bucket as of an older revision is the current one with the newer events
undone.

Everything here is synchronous and runs on the loop; only `publish` changes the state.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from operator import attrgetter

from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log
from tarmac.store.interface import Compacted, Entry, Event, FutureRevision, Page, Subscriber

_log = log("store")

HistoryReader = Callable[[str, int, int, str], Awaitable[Sequence[Event]]]
"""Reads changes of a bucket after one revision and up to another, by prefix, from a durable log. Raises Compacted."""

_EVENT_COST = 130  # an Event and its slots in two queues
_ENTRY_COST = 160  # an Entry, its name and numbers, without its bytes


class Bucket:
    """One resource: its entries, its part of the history, and its subscribers."""

    __slots__ = ("_first", "entries", "events", "floor", "name", "names", "ordered", "subscribers")

    def __init__(self, name: str, floor: int) -> None:
        self.name = name
        self.entries: dict[str, Entry] = {}
        self.names: list[str] = []  # sorted
        self.ordered: list[Entry] = []  # in the order of `names`
        self.events: list[Event] = []  # those before `_first` are dropped
        self._first = 0
        self.floor = floor
        self.subscribers: dict[object, Subscriber] = {}

    def load(self, entries: Iterable[Entry]) -> None:
        """Replace the contents, without history."""
        self.ordered = sorted(entries, key=_name_of)
        self.names = [entry.name for entry in self.ordered]
        self.entries = {entry.name: entry for entry in self.ordered}

    def apply(self, event: Event) -> None:
        """Apply one change and append it to the history."""
        self.events.append(event)
        entry = event.entry
        name = entry.name
        if event.type == "MODIFIED":
            self.entries[name] = entry
            self.ordered[bisect_left(self.names, name)] = entry
        elif event.type == "DELETED":
            del self.entries[name]
            at = bisect_left(self.names, name)
            del self.names[at], self.ordered[at]
        else:
            self._insert(name, entry)

    def _insert(self, name: str, entry: Entry) -> None:
        self.entries[name] = entry
        if not self.names or name > self.names[-1]:  # generated names and loads mostly arrive in order
            self.names.append(name)
            self.ordered.append(entry)
        else:
            at = bisect_left(self.names, name)
            self.names.insert(at, name)
            self.ordered.insert(at, entry)

    def since(self, revision: int) -> list[Event]:
        """Return the events after `revision`, which must not be below the floor."""
        at = bisect_right(self.events, revision, lo=self._first, key=_revision_of)
        return self.events[at:]

    def forget_oldest(self) -> None:
        """Drop one event; its revision becomes the floor."""
        event = self.events[self._first]
        self.floor = max(self.floor, event.entry.revision)
        self._first += 1
        if self._first >= 64 and self._first * 2 >= len(self.events):  # amortised: each event is moved at most once
            del self.events[: self._first]
            self._first = 0

    def bounds(self, prefix: str, after: str) -> tuple[int, int]:
        """Return the index range of the names with `prefix` that sort after `after`."""
        low = bisect_left(self.names, prefix) if prefix else 0
        if after:
            low = max(low, bisect_right(self.names, after))
        high = bisect_left(self.names, _behind(prefix)) if prefix else len(self.names)
        return low, max(low, high)

    def page(self, prefix: str, after: str, limit: int, revision: int) -> Page:
        """Return a slice of the current entries."""
        low, high = self.bounds(prefix, after)
        end = min(low + limit, high) if limit else high
        return Page(self.ordered[low:end], revision, high - end)

    def page_as_of(self, prefix: str, after: str, limit: int, revision: int) -> Page:
        """Return a slice as of `revision`: current entries untouched by newer events, plus the replaced ones."""
        replaced: dict[str, Entry | None] = {}
        for event in self.since(revision):
            name = event.entry.name
            if name not in replaced and name.startswith(prefix) and name > after:
                replaced[name] = event.previous
        low, high = self.bounds(prefix, after)
        restored = [entry for entry in replaced.values() if entry is not None]
        total = high - low - sum(name in self.entries for name in replaced) + len(restored)
        # The first `limit` entries as of then are among the first `limit` untouched current ones and the restored ones.
        end = min(low + limit + len(replaced), high) if limit else high
        found = [entry for entry in self.ordered[low:end] if entry.name not in replaced]
        if restored:
            found = sorted(found + restored, key=lambda entry: entry.name)
        if limit:
            found = found[:limit]
        return Page(found, revision, total - len(found))


class VisibleState:
    """The read half of every driver, and `publish`."""

    def __init__(self, *, keep_events: int = 20_000, keep_bytes: int = 12 << 20) -> None:
        self.revision = 1
        self._buckets: dict[str, Bucket] = {}
        self._start_floor = 1  # for buckets that appear later
        self._compacted = 0
        self._window: deque[Event] = deque()  # every retained event of all buckets, oldest first
        self._window_bytes = 0
        self._keep_events = keep_events
        self._keep_bytes = keep_bytes

    def get(self, bucket: str, name: str) -> Entry | None:
        """The visible version."""
        found = self._buckets.get(bucket)
        return found.entries.get(name) if found is not None else None

    def list(self, bucket: str, prefix: str = "", *, after: str = "", limit: int = 0, revision: int = 0) -> Page:
        """Entries with `prefix` that sort after `after`, as of `revision` (0: now)."""
        found = self._buckets.get(bucket)
        if not revision or revision == self.revision:
            return found.page(prefix, after, limit, self.revision) if found is not None else Page([], self.revision, 0)
        self._check_history(found, revision)
        return found.page_as_of(prefix, after, limit, revision) if found is not None else Page([], revision, 0)

    def count(self, bucket: str) -> int:
        """Number of entries in the bucket."""
        found = self._buckets.get(bucket)
        return len(found.names) if found is not None else 0

    def buckets(self) -> Sequence[str]:
        """Buckets that have entries."""
        return [name for name, bucket in self._buckets.items() if bucket.names]

    def since(self, bucket: str, revision: int, prefix: str = "") -> Sequence[Event]:
        """Every visible change of the bucket after `revision`, from memory."""
        found = self._buckets.get(bucket)
        self._check_history(found, revision)
        if found is None or revision == self.revision:
            return []
        events = found.since(revision)
        return [event for event in events if event.entry.name.startswith(prefix)] if prefix else events

    def subscribe(self, bucket: str, subscriber: Subscriber) -> Callable[[], None]:
        """Deliver every later batch of the bucket; returns the call that ends it."""
        subscribers = self._bucket(bucket).subscribers
        token = object()
        subscribers[token] = subscriber
        return partial(_end, subscribers, token)

    def publish(self, events: Sequence[Event]) -> None:
        """Make a batch visible, add it to the history, and notify the subscribers."""
        batches: dict[str, list[Event]] = {}
        for event in events:
            name = event.bucket
            bucket = self._buckets.get(name) or self._bucket(name)
            bucket.apply(event)
            self._window.append(event)
            self._window_bytes += _cost(event)
            if bucket.subscribers:
                batches.setdefault(name, []).append(event)
        # The whole batch is visible before the first subscriber is called: a subscriber that reads never sees half of
        # it.
        self.revision = events[-1].entry.revision
        self._trim_window()
        for name, batch in batches.items():
            self._notify(tuple(self._buckets[name].subscribers.values()), batch)

    def load(
        self, entries: dict[str, dict[str, Entry]], revision: int, history: Iterable[Sequence[Event]] = ()
    ) -> None:
        """Start from these contents, with the history since `revision`, in batches, that led to them.

        `entries` is read after the last batch, so both may come from one pass over a log.
        """
        self.revision = self._start_floor = revision
        self._window.clear()
        self._window_bytes = 0
        previous, self._buckets = self._buckets, {}
        for events in history:
            self._remember(events)
        for name in {**entries, **previous}:
            bucket = self._bucket(name)
            bucket.load(entries.get(name, {}).values())
            if name in previous:
                bucket.subscribers = previous[name].subscribers

    def forgotten(self, bucket: str, revision: int) -> None:
        """Set the bucket's floor: changes up to this revision are not in memory."""
        self._bucket(bucket).floor = revision

    def _remember(self, events: Sequence[Event]) -> None:
        """Add events to the history whose effect the contents already include."""
        for event in events:
            name = event.bucket
            (self._buckets.get(name) or self._bucket(name)).events.append(event)
            self._window_bytes += _cost(event)
        self._window += events
        self.revision = events[-1].entry.revision
        self._trim_window()

    def forget(self, revision: int) -> None:
        """Drop history up to and including `revision`."""
        if revision > self.revision:
            raise FutureRevision(self.revision)
        self._compacted = max(self._compacted, revision)
        while self._window and self._window[0].entry.revision <= revision:
            self._forget_oldest()

    def raise_to(self, revision: int) -> None:
        """Continue from `revision`, if it is ahead, without the history before; subscribers get an empty batch."""
        self.forget(self.revision)
        self.revision = self._compacted = max(self.revision, revision)
        for bucket in self._buckets.values():
            self._notify(tuple(bucket.subscribers.values()), ())

    async def _joined_history(self, bucket: str, revision: int, prefix: str, read: HistoryReader) -> list[Event]:
        """Read from memory if it reaches back far enough, else the durable log up to now and memory from there."""
        if revision > self.revision:
            raise FutureRevision(self.revision)
        events: list[Event] = []
        while True:
            try:
                return [*events, *self.since(bucket, revision, prefix)]
            except Compacted:
                until = self.revision  # the log may be ahead of the visible state
                # More may become visible during the read, and memory may drop events again: then the log is read once
                # more.
                events += await read(bucket, revision, until, prefix)
                revision = until

    def _notify(self, subscribers: Iterable[Subscriber], batch: Sequence[Event]) -> None:
        for subscriber in subscribers:
            try:
                subscriber(batch)
            # one failing subscriber must not keep the batch from other subscribers, or from a writer
            except Exception as error:
                end_if_out_of_memory(error)
                _log.error("subscriber failed", error=repr(error))

    def _check_history(self, bucket: Bucket | None, revision: int) -> None:
        if revision > self.revision:
            raise FutureRevision(self.revision)
        floor = max(self._compacted, bucket.floor if bucket is not None else self._start_floor)
        if revision < floor:
            raise Compacted(floor)

    def _bucket(self, name: str) -> Bucket:
        found = self._buckets.get(name)
        if found is None:
            found = self._buckets[name] = Bucket(name, self._start_floor)
        return found

    def _trim_window(self) -> None:
        while len(self._window) > self._keep_events or self._window_bytes > self._keep_bytes:
            self._forget_oldest()

    def _forget_oldest(self) -> None:
        event = self._window.popleft()
        self._window_bytes -= _cost(event)
        self._buckets[event.bucket].forget_oldest()


def _end(subscribers: dict[object, Subscriber], token: object) -> None:
    subscribers.pop(token, None)


_name_of = attrgetter("name")


def _revision_of(event: Event) -> int:
    return event.entry.revision


def _cost(event: Event) -> int:
    """Bytes that only the history references: the replaced version, and the last state of a deleted object."""
    cost = _EVENT_COST
    if event.previous is not None:
        cost += _ENTRY_COST + len(event.previous.raw)
    if event.type == "DELETED":
        cost += _ENTRY_COST + len(event.entry.raw)
    return cost


def _behind(prefix: str) -> str:
    """Return the least string that sorts after every string with `prefix`."""
    return prefix[:-1] + chr(ord(prefix[-1]) + 1)
