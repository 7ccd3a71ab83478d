"""The store's contract, as the server uses it and as the conformance suite checks it.

Keys are (bucket, name): a bucket is one resource (`core/pods`), a name is `namespace/name`, or just `name` for
cluster-scoped objects. One revision counts over all buckets. Values are opaque bytes *without* a resource version; the
store splices the revision in when it assigns one, so readers, lists and watchers all share one exact-size `Entry.raw`.

Reads are synchronous: every driver keeps the visible (durable) state in memory. A driver that shares its log with other
writers (etcd) is behind them by a moment, so a reader that needs "now" awaits `fresh()` first; for local drivers it is
None and costs nothing. Writers check against `head`, which includes writes accepted but not yet durable; a write
is acknowledged (its future resolves) only when it is durable and visible. A refusal that rests on `head` or `pending`
would be ahead of readers; whoever tells one awaits `settled()` first.

Events reach subscribers synchronously in batches, in revision order, before the writers of that batch are woken. Since
everything happens on one loop, `since(...)` (or `await history(...)`) followed by `subscribe(...)` with no await
between them misses and repeats nothing. An empty batch tells a subscriber that events were lost before it (only etcd
can do this, after an outage longer than its history): the watch must end with 410, so that its client lists again.

A rule over many objects (a quota, a range of addresses) is checked against the state in memory and then relied on by a
write. In a local store, `head` and `pending` show all there is, whoever wrote it. Where the log is shared, the write
names a *guard* that stands for the rule: it goes through only if every earlier write under that guard was visible here
when it was submitted. Check and submit without an await between them.

An empty store is at revision 1, so that 0 stays free to mean "any". Revisions never go back, not even when the objects
move to another store or come back from a copy: whoever fills a store first calls `raise_floor` with a revision above
all that clients can have heard of (`FLOOR_STEP` above the newest that is known), so that each of them is told 410.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

PREFIX = b'{"metadata":{'
"""Every value starts with this and has some field of metadata; the resource version is spliced in between."""

FLOOR_STEP = 10**9
"""How far above the newest known revision a store begins that takes another one's place."""

_REVISION = b'{"metadata":{"resourceVersion":"'


class StoreError(Exception):
    """Root of the store's errors.

    StoreError ─┬─ Exists          create of a key that is there
                ├─ Missing         update or delete of a key that is not there
                ├─ Conflict        the key has another revision than expected
                ├─ Overtaken       another write under the same guard came first
                ├─ Compacted       that history is gone
                ├─ FutureRevision  that revision is yet to come
                └─ Unavailable     not acknowledged, outcome unknown
                     └─ Damaged    what lies on the disk is not what was written
    """


class Exists(StoreError):
    """Create of a key that is there."""


class Missing(StoreError):
    """Update or delete of a key that is not there."""


class Conflict(StoreError):
    """The key's revision is not the expected one; `current` is what is there now."""

    def __init__(self, current: int) -> None:
        super().__init__(f"revision is {current}")
        self.current = current


class Overtaken(StoreError):
    """Another write under the same guard came first; it is visible by now. Check again."""


class Compacted(StoreError):
    """The revision asked for is older than the history that is kept (410 Gone); `oldest` is the first that is not."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history starts at {oldest}")
        self.oldest = oldest


class FutureRevision(StoreError):
    """The revision asked for has not happened yet."""

    def __init__(self, current: int) -> None:
        super().__init__(f"revision is only {current}")
        self.current = current


class Unavailable(StoreError):
    """Not acknowledged and its fate unknown: disk error, lost etcd, shutting down."""


class Damaged(Unavailable):
    """What lies on the disk is not what was written. It is never served."""


class Entry(msgspec.Struct, eq=False, gc=False):
    """One version of one object. Immutable; shared by state, history and every reader.

    `memo` is the readers': what the first of them has worked out of this version, the others need not work out again.
    It must not lead back here: there are too many entries for anybody to look for circles through them.
    """

    name: str  # namespace/name or name; interned where it comes from, since caches know it by the same
    revision: int  # of this version
    created: int  # revision of the create
    raw: bytes  # complete JSON, resource version included
    memo: Any = None

    def __repr__(self) -> str:  # what it holds may be secret
        return f"Entry({self.name!r} at {self.revision})"


class Event(msgspec.Struct, eq=False, gc=False):
    """One change. For a delete, `entry.raw` is the last state with the revision of the deletion."""

    type: Literal["ADDED", "MODIFIED", "DELETED"]
    bucket: str
    entry: Entry
    previous: Entry | None


class Page:
    """A slice of a bucket as of one revision, in key order."""

    __slots__ = ("entries", "remaining", "revision")

    def __init__(self, entries: Sequence[Entry], revision: int, remaining: int) -> None:
        self.entries = entries
        self.revision = revision
        self.remaining = remaining  # how many entries follow


Subscriber = Callable[[Sequence[Event]], None]

Observer = Callable[[str, float], None]
"""Told of every write (`create`, `update`, `delete`: accepted to acknowledged) and `sync`, with its seconds."""


class Sealer(Protocol):
    """Encrypts what lies on disk: applied between memory and the durable log, to every value of every bucket.

    It decides itself which buckets to seal; `open` must return the bytes that `seal` was given, on any thread.
    """

    @property
    def opened_first(self) -> Sequence[tuple[str, str]]:
        """Objects (bucket, name) from which it learns its keys: where others write too, they are opened before all."""
        ...

    def seal(self, bucket: str, name: str, value: bytes) -> bytes:
        """The bytes to store. Called once for each write, in the order of the log where it is not shared."""
        ...

    def open(self, bucket: str, name: str, blob: bytes) -> bytes:
        """The value again. Raises ValueError with a text for the operator when it cannot."""
        ...


class Reads(Protocol):
    """What reading and watching need: a store, or something that shows a part of one."""

    @property
    def revision(self) -> int:
        """The newest visible revision."""
        ...

    def fresh(self) -> Awaitable[None] | None:
        """None when memory is current by construction; else await it before a consistent read."""
        ...

    def get(self, bucket: str, name: str) -> Entry | None:
        """The visible version."""
        ...

    def list(self, bucket: str, prefix: str = "", *, after: str = "", limit: int = 0, revision: int = 0) -> Page:
        """Entries whose name starts with `prefix` and sorts after `after`, as of `revision` (0: now).

        Raises Compacted, FutureRevision.
        """
        ...

    def since(self, bucket: str, revision: int, prefix: str = "") -> Sequence[Event]:
        """Every visible change of the bucket after `revision`, from memory.

        Raises Compacted when memory does not reach that far back (`history` may), FutureRevision.
        """
        ...

    async def history(self, bucket: str, revision: int, prefix: str = "") -> Sequence[Event]:
        """As `since`, reaching as far back as the durable log does. Raises Compacted, FutureRevision, Unavailable.

        Complete at the moment it returns: await it directly, not in a task, if `subscribe` is to follow without a gap.
        """
        ...

    def subscribe(self, bucket: str, subscriber: Subscriber) -> Callable[[], None]:
        """Deliver every later batch of the bucket; returns the call that ends it."""
        ...


class Store(Reads, Protocol):
    """What every driver offers. All methods are called on the loop that ran `start`."""

    async def start(self) -> None:
        """Load state and history; after this reads work. Raises Unavailable with a text for the operator."""
        ...

    async def close(self) -> None:
        """Finish what was accepted, release everything."""
        ...

    def checks(self) -> Mapping[str, Callable[[], str | None]]:
        """Named health checks: each tells what is wrong at the moment, or None. `store` is why writes are refused."""
        ...

    @property
    def shared(self) -> bool:
        """Whether others write to the same log, so that guards are needed."""
        ...

    def head(self, bucket: str, name: str) -> Entry | None:
        """The newest accepted version, durable or not: what a read-modify-write starts from."""
        ...

    def pending(self) -> Iterable[Event]:
        """What `head` shows beyond `get`: of each key with changes that are accepted but not visible, the newest.

        Empty where the log is shared: nobody knows what is on its way.
        """
        ...

    def settled(self, revision: int = 0) -> Awaitable[None] | None:
        """None when readers see what `head` shows, up to `revision` if one is given; else await it.

        Raises Unavailable, when awaited, if some of it was never written: what was concluded from it may be wrong.
        """
        ...

    def count(self, bucket: str) -> int:
        """How many entries the bucket has."""
        ...

    def buckets(self) -> Sequence[str]:
        """Buckets that have entries."""
        ...

    def create(self, bucket: str, name: str, value: bytes, *, guards: Sequence[str] = ()) -> Future[Entry]:
        """Raises Exists (at once, or from the future), Overtaken."""
        ...

    def update(
        self, bucket: str, name: str, value: bytes, expected: int, *, guards: Sequence[str] = ()
    ) -> Future[Entry]:
        """Replace the version `expected`. Raises Missing, Conflict, Overtaken."""
        ...

    def delete(self, bucket: str, name: str, expected: int, value: bytes | None = None) -> Future[Entry]:
        """Remove the version `expected`. Raises Missing, Conflict.

        `value` is the final state to show in the event, when it is not the stored one. Resolves to that last entry.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Forget history up to and including `revision`. Raises FutureRevision, Unavailable."""
        ...

    async def raise_floor(self, revision: int) -> None:
        """Give out no revision up to and including this one any more, and forget the history before it, for good.

        Objects keep the revisions they have. Afterwards `revision` is at least this one, every earlier one is
        Compacted, and subscribers are told that they missed something. For whoever fills a store that nobody serves
        yet: no write may be under way. Raises Unavailable.
        """
        ...

    async def raise_format(self) -> tuple[int, int]:
        """Write the newest format from now on: the one before, and the one now. A store of one server has it at start.

        For whoever knows that every server which shares the store reads it. Raises Unavailable.
        """
        ...


def splice(value: bytes, revision: int) -> bytes:
    """The complete object: `value` with its resource version. An exact-size copy, which matters for memory."""
    return b'{"metadata":{"resourceVersion":"%d",%b' % (revision, value[len(PREFIX) :])


def unsplice(entry: Entry) -> bytes:
    """The value that `entry` was made of."""
    return PREFIX + entry.raw[len(_REVISION) + len(str(entry.revision)) + 2 :]
