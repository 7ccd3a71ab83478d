"""Who watches what, and the one place where events turn into writes.

The hub subscribes to a bucket while anybody watches it. Groups that follow one name only, in one namespace or in all,
are found by it, so a thousand watches of single ConfigMaps cost an event nothing but two look-ups. Deadlines and
bookmarks are kept by one task instead of timers of their own; it sleeps until a watcher is due.

Writing to many sockets is the dearest thing the server does, so it paces itself: after a fan-out that took long, the
next one of that bucket waits as long again, and what happens meanwhile goes out as one write per watcher. A few
watchers are never made to wait; hundreds get bursts in fewer system calls, and requests get half of the loop's time.
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
from tarmac.server.storage.selectors import Selection
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

_BEAT = 0.25  # between two looks at the watchers
_BOOKMARKS = 60.0
_TOGETHER = 5.0  # bookmarks go out at multiples of this, so that hundreds of watchers are not looked at all the time
_BEFORE_THE_END = 2.0
_LARGE = 256 << 10  # an initial state beyond this is waited for
_BACKLOG = 16 << 20
_QUICK = 0.0005  # a fan-out that takes no longer is followed by the next one at once
_LONGEST_REST = 0.05

GroupKey = tuple[str, str, tuple[str, str], AnswerShape]


class Watcher:
    """One client's stream."""

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
        self.skip_to = skip_to  # events up to this revision are not for it
        self.lifetime = lifetime
        self.bookmarks = bookmarks
        self.titled = titled  # whether it has seen the table's column definitions, if it needs any
        self.deadline = 0.0
        self.next_bookmark = 0.0
        self.backlog: list[Chunk] | None = None
        self.backlog_size = 0

    @property
    def due(self) -> float:
        """When it next has to be looked at."""
        return min(self.deadline, self.next_bookmark) if self.bookmarks else self.deadline

    def begin(self, chunk: Chunk) -> bool:
        """Send the initial state; events wait while the client takes a large one."""
        if chunk.size > _LARGE:
            self.backlog = []
        return self.stream.write_chunk(chunk)

    def send(self, chunk: Chunk) -> bool:
        """Send, or put behind what is still on its way."""
        if self.backlog is None:
            return self.stream.write_chunk(chunk)
        self.backlog.append(chunk)
        self.backlog_size += chunk.size
        return self.backlog_size <= _BACKLOG

    def catch_up(self) -> bool:
        """Send what waited, once the client has taken the initial state. True when it is no longer behind."""
        if self.backlog is None or self.stream.buffered > _LARGE:
            return self.backlog is None
        waiting, self.backlog, self.backlog_size = self.backlog, None, 0
        for chunk in waiting:
            self.stream.write_chunk(chunk)
        return True


class Group:
    """Watchers that see the same."""

    __slots__ = ("key", "prefix", "selection", "served", "shape", "watchers")

    def __init__(self, served: ResourceStorage, prefix: str, selection: Selection, shape: AnswerShape) -> None:
        self.served = served
        self.prefix = prefix
        self.selection = selection
        self.shape = shape
        self.key: GroupKey = (served.resource.api_version, prefix, selection.key, shape)
        self.watchers: dict[Watcher, None] = {}

    @property
    def only(self) -> str | None:
        """The key of the one object it follows, if it follows one; "/NAME" when it does so in every namespace."""
        if self.selection.name is None:
            return None
        anywhere = self.served.resource.namespaced and not self.prefix
        return f"{'/' if anywhere else self.prefix}{self.selection.name}"

    def sees(self, change: StoreChange) -> WatcherView | None:
        """What its watchers see of a change, if anything."""
        if self.prefix and not change.event.entry.name.startswith(self.prefix):
            return None
        return change.seen if self.selection.everything else change.selected(self.selection)


class _Scope:
    """Everything that is watched in one bucket."""

    __slots__ = ("end", "general", "pending", "resting_until", "single")

    def __init__(self) -> None:
        self.pending: list[Event] = []  # for the fan-out that is scheduled already
        self.resting_until = 0.0
        self.general: dict[GroupKey, Group] = {}
        self.single: dict[str, dict[GroupKey, Group]] = {}
        self.end: Callable[[], None] = lambda: None

    def groups_of(self, group: Group) -> dict[GroupKey, Group]:
        """The table that a group like this belongs in."""
        return self.general if group.only is None else self.single.setdefault(group.only, {})

    def following(self, key: str) -> Iterable[Group]:
        """The groups that follow the object with this key only."""
        namespace, slash, name = key.rpartition("/")
        for followed in (key, slash + name) if namespace else (key,):
            groups = self.single.get(followed)
            if groups is not None:
                yield from tuple(groups.values())

    def groups(self) -> Iterable[Group]:
        """All of them."""
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
        self._due = inf  # no watcher has a deadline or a bookmark before
        self._next = inf  # when the watchers are looked at again
        self._sooner = asyncio.Event()  # that is earlier than it was
        self.sent: dict[str, int] = {}  # events by bucket, for metrics
        self.count = 0

    def join(self, like: Group, watcher: Watcher) -> Callable[[], None]:
        """Let the watcher have everything from now on; returns the call that ends it."""
        bucket = like.served.bucket
        scope = self._scopes.get(bucket)
        if scope is None:
            scope = self._scopes[bucket] = _Scope()
            scope.end = like.served.source.subscribe(bucket, partial(self._deliver, bucket, scope))
        group = scope.groups_of(like).setdefault(like.key, like)
        group.watchers[watcher] = None
        now = self._clock.monotonic()
        watcher.deadline = now + watcher.lifetime
        watcher.next_bookmark = _next_bookmark(watcher, now)
        self._due = min(self._due, watcher.due)
        if watcher.backlog is not None:
            self._behind[watcher] = None
        self._look_at(now + _BEAT if watcher.backlog is not None else watcher.due)
        self.count += 1
        return partial(self._leave, bucket, group, watcher)

    def _leave(self, bucket: str, group: Group, watcher: Watcher) -> None:
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
            del self._scopes[bucket]

    def _deliver(self, bucket: str, scope: _Scope, events: Sequence[Event]) -> None:
        if not events:
            self._flush(bucket, scope)
            self._lost(scope)
            return
        rest = scope.resting_until - self._clock.monotonic()
        # While something is pending, everything goes behind it, even if the rest is over: order is kept.
        if scope.pending:
            scope.pending.extend(events)
        elif rest > 0:
            scope.pending.extend(events)
            asyncio.get_running_loop().call_later(rest, self._flush, bucket, scope)
        else:
            self._fan_out(bucket, scope, events)

    def _flush(self, bucket: str, scope: _Scope) -> None:
        """Send what has gathered, if nobody has yet."""
        if scope.pending:
            events, scope.pending = scope.pending, []
            self._fan_out(bucket, scope, events)

    def _fan_out(self, bucket: str, scope: _Scope, events: Sequence[Event]) -> None:
        began = self._clock.monotonic()
        self._write_all(bucket, scope, events)
        ended = self._clock.monotonic()
        if ended - began > _QUICK:
            scope.resting_until = ended + min(ended - began, _LONGEST_REST)

    def _write_all(self, bucket: str, scope: _Scope, events: Sequence[Event]) -> None:
        changes: dict[str, list[StoreChange]] = {}
        for group in tuple(scope.general.values()):
            self._write(bucket, group, _changes_for(group, events, changes))
        if scope.single:
            for event in events:
                for group in scope.following(event.entry.name):
                    self._write(bucket, group, [StoreChange(group.served, event)])

    def _write(self, bucket: str, group: Group, changes: Sequence[StoreChange]) -> None:
        seen = [(change, each) for change in changes if (each := group.sees(change))]
        if not seen:
            return
        chunk = as_chunk(seen, group.shape)
        for watcher in tuple(group.watchers):
            if not watcher.titled or watcher.skip_to >= seen[0][0].event.entry.revision:
                self._write_own(group, watcher, seen)
            elif not watcher.send(chunk):
                watcher.stream.close()
        self.sent[bucket] = self.sent.get(bucket, 0) + len(seen) * len(group.watchers)

    def _write_own(self, group: Group, watcher: Watcher, seen: Sequence[tuple[StoreChange, WatcherView]]) -> None:
        """For the few who may not see all of a batch, or need the titles of their table first."""
        own = [(change, each) for change, each in seen if change.event.entry.revision > watcher.skip_to]
        if not own:
            return
        make, watcher.titled = as_chunk if watcher.titled else titled_chunk, True
        if not watcher.send(make(own, group.shape)):
            watcher.stream.close()

    def _lost(self, scope: _Scope) -> None:
        """Events are missing: every client must list again."""
        line = Chunk(error_line(Gone("too old resource version").encoded()))
        for group in tuple(scope.groups()):
            for watcher in tuple(group.watchers):
                watcher.send(line)
                watcher.stream.close()

    async def run(self) -> None:
        """Keep deadlines and bookmarks until cancelled."""
        while True:
            self._sooner.clear()
            if self._next == inf:
                await self._sooner.wait()
            else:
                await first(self._clock.sleep(self._next - self._clock.monotonic()), self._sooner.wait())
            now = self._clock.monotonic()
            if now >= self._next:
                self.beat()
                self._next = now + _BEAT if self._behind else max(now + _BEAT, self._due)

    def _look_at(self, when: float) -> None:
        if when < self._next:
            self._next = when
            self._sooner.set()

    def beat(self) -> None:
        """End what is over, send bookmarks that are due and what waited for slow beginners."""
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

    def _beat(self, group: Group, now: float) -> None:
        bookmark: Chunk | None = None
        for watcher in tuple(group.watchers):
            if watcher.bookmarks and now >= watcher.next_bookmark:
                if bookmark is None:
                    bookmark = as_bookmark(bookmark_object(group.served, self._store.revision, group.shape))
                watcher.next_bookmark = _next_bookmark(watcher, now)
                watcher.send(bookmark)
            if now >= watcher.deadline:
                watcher.stream.close()


def _changes_for(group: Group, events: Sequence[Event], made: dict[str, list[StoreChange]]) -> list[StoreChange]:
    """The batch as changes, shared by all groups of one resource."""
    version = group.served.resource.api_version
    changes = made.get(version)
    if changes is None:
        changes = made[version] = [StoreChange(group.served, event) for event in events]
    return changes


def _next_bookmark(watcher: Watcher, now: float) -> float:
    """Every minute, with others that are due about then, and once more shortly before the end."""
    last = watcher.deadline - _BEFORE_THE_END
    if now >= last:
        return now + watcher.lifetime
    return min((now + _BOOKMARKS) // _TOGETHER * _TOGETHER, last)
