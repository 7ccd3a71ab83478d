"""The watch hub: groups of watchers, and the only place where store events become socket writes.

The hub subscribes to a bucket while it has watchers. Groups that follow a single name, in one namespace or in all, are
indexed by it, so a thousand watches of single ConfigMaps cost an event only two lookups. One task keeps all deadlines
and bookmarks instead of a timer per watcher; it sleeps until the next watcher is due.

Writing to many sockets is the most expensive work of the server, so fan-out is throttled: after a slow fan-out, the
next one of that bucket waits as long again, and events that arrive meanwhile go out as one write per watcher. A few
watchers never wait; hundreds get bursts in fewer system calls, and requests keep half of the event loop's time.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import inf

from tarmac.api.status import Gone
from tarmac.base.clock import Clock
from tarmac.base.tasks import first
from tarmac.http.messages import Chunk, Stream
from tarmac.server.printing.negotiation import AnswerShape
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.storage.selectors import EntrySelection
from tarmac.server.storage.watchevents import (
    StoreChange,
    WatcherView,
    as_bookmark,
    as_chunk,
    bookmark_object,
    error_line,
    titled_chunk,
)
from tarmac.store.interface import Event, Store

_CHECK_INTERVAL = 0.25  # minimum interval between two checks of the watchers
_BOOKMARK_INTERVAL = 60.0
_BOOKMARK_GRID = 5.0  # bookmark times are rounded to multiples of this, so that many watchers are due at once
# kube-apiserver, too, sends the last bookmark 2 s before the deadline: client-go resumes from it.
_FINAL_BOOKMARK_LEAD = 2.0
_MAX_UNQUEUED = 256 << 10  # bytes: while a larger initial state is being sent, events queue in the backlog
_MAX_BACKLOG = 16 << 20
_MIN_COSTLY_FAN_OUT = 0.0005  # seconds: no rest after a fan-out that took no longer
_MAX_REST = 0.05

GroupKey = tuple[str, str, tuple[str, str], AnswerShape]


class Watcher:
    """The stream of one client."""

    __slots__ = (
        "backlog",
        "backlog_size",
        "bookmarks",
        "deadline",
        "lifetime",
        "next_bookmark",
        "skip_to",
        "stream",
        "titled",
    )

    def __init__(self, stream: Stream, *, skip_to: int, lifetime: float, bookmarks: bool, titled: bool) -> None:
        self.stream = stream
        self.skip_to = skip_to  # events up to this revision are skipped: sent already, or not wanted
        self.lifetime = lifetime
        self.bookmarks = bookmarks
        self.titled = titled  # the table's column definitions were sent, or are not needed
        self.deadline = 0.0
        self.next_bookmark = 0.0
        self.backlog: list[Chunk] | None = None
        self.backlog_size = 0

    @property
    def due(self) -> float:
        """The time of its next deadline or bookmark."""
        return min(self.deadline, self.next_bookmark) if self.bookmarks else self.deadline

    def begin(self, chunk: Chunk) -> bool:
        """Send the initial state. After a large one, events queue in the backlog until the client has read it."""
        if chunk.size > _MAX_UNQUEUED:
            self.backlog = []
        return self.stream.write_chunk(chunk)

    def send(self, chunk: Chunk) -> bool:
        """Send a chunk, or append it to the backlog. Return False when the watcher must be closed."""
        if self.backlog is None:
            return self.stream.write_chunk(chunk)
        self.backlog.append(chunk)
        self.backlog_size += chunk.size
        # A client that never reads its initial state would otherwise collect events without limit.
        return self.backlog_size <= _MAX_BACKLOG

    def catch_up(self) -> bool:
        """Send the backlog once the client has read the initial state. Return True when no backlog is left."""
        if self.backlog is None or self.stream.buffered > _MAX_UNQUEUED:
            return self.backlog is None
        # Cleared before the writes: events from now on follow directly, in order, since nothing is awaited here.
        waiting, self.backlog, self.backlog_size = self.backlog, None, 0
        for chunk in waiting:
            self.stream.write_chunk(chunk)
        return True


class WatchGroup:
    """Watchers that see the same events: same resource, namespace, selectors and representation."""

    __slots__ = ("key", "prefix", "selection", "shape", "storage", "watchers")

    def __init__(self, storage: ResourceStorage, prefix: str, selection: EntrySelection, shape: AnswerShape) -> None:
        self.storage = storage
        self.prefix = prefix
        self.selection = selection
        self.shape = shape
        self.key: GroupKey = (storage.resource.api_version, prefix, selection.key, shape)
        self.watchers: dict[Watcher, None] = {}

    @property
    def only(self) -> str | None:
        """The key of the single object it follows, or None; "/NAME" when it follows the name in every namespace."""
        if self.selection.name is None:
            return None
        anywhere = self.storage.resource.namespaced and not self.prefix
        return f"{'/' if anywhere else self.prefix}{self.selection.name}"

    def sees(self, change: StoreChange) -> WatcherView | None:
        """Return the change as this group's watchers see it, or None."""
        if self.prefix and not change.event.entry.name.startswith(self.prefix):
            return None
        return change.seen if self.selection.everything else change.selected(self.selection)


class _Scope:
    """All groups of one bucket."""

    __slots__ = ("end", "general", "pending", "resting_until", "single")

    def __init__(self) -> None:
        self.pending: list[Event] = []  # events for the next fan-out, which is scheduled already
        self.resting_until = 0.0
        self.general: dict[GroupKey, WatchGroup] = {}
        self.single: dict[str, dict[GroupKey, WatchGroup]] = {}
        self.end: Callable[[], None] = lambda: None

    def groups_of(self, group: WatchGroup) -> dict[GroupKey, WatchGroup]:
        """Return the table that a group like this belongs to."""
        return self.general if group.only is None else self.single.setdefault(group.only, {})

    def following(self, key: str) -> Iterable[WatchGroup]:
        """Yield the groups that follow only the object with this key."""
        namespace, slash, name = key.rpartition("/")
        for followed in (key, slash + name) if namespace else (key,):
            groups = self.single.get(followed)
            if groups is not None:
                # A copy: a write that closes the stream of the last watcher removes its group from this table.
                yield from tuple(groups.values())

    def groups(self) -> Iterable[WatchGroup]:
        """Yield all groups."""
        # No copies here: callers that write make one first, since a closed stream removes groups from both tables.
        yield from self.general.values()
        for groups in self.single.values():
            yield from groups.values()


class Hub:
    """All watchers of the server."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._scopes: dict[str, _Scope] = {}
        self._behind: dict[Watcher, None] = {}
        self._due = inf  # the earliest deadline or bookmark of any watcher
        self._next = inf  # time of the next check of the watchers
        self._sooner = asyncio.Event()  # set when `_next` moves to an earlier time
        self.sent: dict[str, int] = {}  # events by bucket, for metrics
        self.count = 0

    def join(self, like: WatchGroup, watcher: Watcher) -> Callable[[], None]:
        """Add the watcher to a group like this; return the function that removes it."""
        bucket = like.storage.bucket
        scope = self._scopes.get(bucket)
        if scope is None:
            scope = self._scopes[bucket] = _Scope()
            scope.end = like.storage.source.subscribe(bucket, partial(self._deliver, bucket, scope))
        group = scope.groups_of(like).setdefault(like.key, like)
        group.watchers[watcher] = None
        now = self._clock.monotonic()
        # Before `_due` is computed from it, or the check of deadlines would wait for another watcher's.
        watcher.deadline = now + watcher.lifetime
        watcher.next_bookmark = _next_bookmark(watcher, now)
        self._due = min(self._due, watcher.due)
        if watcher.backlog is not None:
            self._behind[watcher] = None
        self._look_at(now + _CHECK_INTERVAL if watcher.backlog is not None else watcher.due)
        self.count += 1
        return partial(self._leave, bucket, group, watcher)

    def _leave(self, bucket: str, group: WatchGroup, watcher: Watcher) -> None:
        # Called twice when the hub closes a stream and its connection ends as well: the count must fall once.
        if watcher not in group.watchers:
            return
        del group.watchers[watcher]
        self._behind.pop(watcher, None)
        self.count -= 1
        if group.watchers:
            return
        scope = self._scopes[bucket]
        groups = scope.groups_of(group)
        groups.pop(group.key, None)
        if group.only is not None and not groups:
            del scope.single[group.only]
        if not scope.general and not scope.single:
            scope.end()
            # A scope that stayed here after `end` would take the next watcher, and never get another event.
            del self._scopes[bucket]

    def _deliver(self, bucket: str, scope: _Scope, events: Sequence[Event]) -> None:
        if not events:
            # The store has lost events. Pending ones go out first, so that clients resume from the last event that they
            # did get.
            self._flush(bucket, scope)
            self._lost(scope)
            return
        rest = scope.resting_until - self._clock.monotonic()
        # Queue behind pending events even if the rest is over, to keep the order.
        if scope.pending:
            scope.pending.extend(events)
        elif rest > 0:
            scope.pending.extend(events)
            # The timer is never cancelled. When it outlives the last watcher, the flush finds no group in this scope
            # and writes nothing; a new watcher of the bucket has a new scope.
            asyncio.get_running_loop().call_later(rest, self._flush, bucket, scope)
        else:
            self._fan_out(bucket, scope, events)

    def _flush(self, bucket: str, scope: _Scope) -> None:
        """Send the pending events, if any are left."""
        if scope.pending:
            # Emptied first: closing a stream below may reach this scope again.
            events, scope.pending = scope.pending, []
            self._fan_out(bucket, scope, events)

    def _fan_out(self, bucket: str, scope: _Scope, events: Sequence[Event]) -> None:
        began = self._clock.monotonic()
        self._write_all(bucket, scope, events)
        ended = self._clock.monotonic()
        if ended - began > _MIN_COSTLY_FAN_OUT:
            scope.resting_until = ended + min(ended - began, _MAX_REST)

    def _write_all(self, bucket: str, scope: _Scope, events: Sequence[Event]) -> None:
        changes: dict[str, list[StoreChange]] = {}
        # A copy: the last watcher of a group removes the group when its stream is closed below.
        for group in tuple(scope.general.values()):
            self._write(bucket, group, _changes_for(group, events, changes))
        if scope.single:
            for event in events:
                for group in scope.following(event.entry.name):
                    self._write(bucket, group, [StoreChange(group.storage, event)])

    def _write(self, bucket: str, group: WatchGroup, changes: Sequence[StoreChange]) -> None:
        seen = [(change, each) for change in changes if (each := group.sees(change))]
        if not seen:
            return
        chunk = as_chunk(seen, group.shape)
        # A copy: closing a stream may remove its watcher from the group during the iteration.
        for watcher in tuple(group.watchers):
            if not watcher.titled or watcher.skip_to >= seen[0][0].event.entry.revision:
                self._write_own(group, watcher, seen)
            elif not watcher.send(chunk):
                watcher.stream.close()
        self.sent[bucket] = self.sent.get(bucket, 0) + len(seen) * len(group.watchers)

    def _write_own(self, group: WatchGroup, watcher: Watcher, seen: Sequence[tuple[StoreChange, WatcherView]]) -> None:
        """Render for a single watcher: it must skip a part of the batch, or still needs the column definitions."""
        # By revision, not by position: events up to it are part of the state that was sent.
        own = [(change, each) for change, each in seen if change.event.entry.revision > watcher.skip_to]
        if not own:
            return
        make, watcher.titled = as_chunk if watcher.titled else titled_chunk, True
        if not watcher.send(make(own, group.shape)):
            watcher.stream.close()

    def _lost(self, scope: _Scope) -> None:
        """Close all watchers with an error: events are missing, so every client must list again."""
        line = Chunk(error_line(Gone("too old resource version").encoded()))
        for group in tuple(scope.groups()):
            for watcher in tuple(group.watchers):
                watcher.send(line)
                watcher.stream.close()

    async def run(self) -> None:
        """Handle deadlines and bookmarks until cancelled."""
        while True:
            # Before the times are read: a deadline set from here on wakes the wait below.
            self._sooner.clear()
            if self._next == inf:
                await self._sooner.wait()
            else:
                await first(self._clock.sleep(self._next - self._clock.monotonic()), self._sooner.wait())
            now = self._clock.monotonic()
            if now >= self._next:
                self.beat()
                self._next = now + _CHECK_INTERVAL if self._behind else max(now + _CHECK_INTERVAL, self._due)

    def _look_at(self, when: float) -> None:
        if when < self._next:
            self._next = when
            self._sooner.set()

    def beat(self) -> None:
        """Close expired watchers, send due bookmarks, and send backlogs whose client has caught up."""
        # Before the bookmarks: one that overtakes a backlog would let its client resume behind events it never got.
        self._behind = {watcher: None for watcher in self._behind if not watcher.catch_up()}
        now = self._clock.monotonic()
        if now < self._due:
            return
        for bucket, scope in tuple(self._scopes.items()):
            self._flush(bucket, scope)  # a bookmark must not overtake an event
            for group in tuple(scope.groups()):
                self._beat(group, now)
        watchers = (
            watcher for scope in self._scopes.values() for group in scope.groups() for watcher in group.watchers
        )
        self._due = min((watcher.due for watcher in watchers), default=inf)

    def _beat(self, group: WatchGroup, now: float) -> None:
        bookmark: Chunk | None = None
        for watcher in tuple(group.watchers):
            if watcher.bookmarks and now >= watcher.next_bookmark:
                if bookmark is None:
                    # The newest revision of all buckets: `beat` has flushed the pending events, so none up to it is
                    # still to come.
                    bookmark = as_bookmark(bookmark_object(group.storage, self._store.revision, group.shape))
                watcher.next_bookmark = _next_bookmark(watcher, now)
                # Ignores the result: a backlog beyond its limit closes the watcher with the next event.
                watcher.send(bookmark)
            # After the bookmark, which tells the client where to resume.
            if now >= watcher.deadline:
                watcher.stream.close()


def _changes_for(group: WatchGroup, events: Sequence[Event], made: dict[str, list[StoreChange]]) -> list[StoreChange]:
    """Return the batch as changes, shared by all groups of one resource."""
    version = group.storage.resource.api_version
    changes = made.get(version)
    if changes is None:
        changes = made[version] = [StoreChange(group.storage, event) for event in events]
    return changes


def _next_bookmark(watcher: Watcher, now: float) -> float:
    """Return the time of the next bookmark: every minute, rounded, and once more shortly before the deadline."""
    last = watcher.deadline - _FINAL_BOOKMARK_LEAD
    if now >= last:
        return now + watcher.lifetime
    return min((now + _BOOKMARK_INTERVAL) // _BOOKMARK_GRID * _BOOKMARK_GRID, last)
