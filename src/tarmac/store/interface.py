"""The store's contract, as the server uses it and as the conformance suite checks it.

Keys are (bucket, name): a bucket is one resource (`core/pods`), a name is `namespace/name`, or just `name` for
cluster-scoped objects. One revision counts over all buckets. Values are opaque bytes *without* a resource version; the
store splices the revision in when it assigns one, so readers, lists and watchers all share one exact-size `Entry.raw`.

Reads are synchronous: every driver keeps the visible (durable) state in memory. A driver that shares its log with other
writers (etcd) lags behind them by a moment, so a reader that needs the current state awaits `fresh()` first; local
drivers return None, which costs nothing. Writers check against `head`, which includes writes accepted but not yet
durable; a write is acknowledged (its future resolves) only when it is durable and visible. A refusal based on `head` or
`pending` would be ahead of readers, so await `settled()` before reporting it.

Events reach subscribers synchronously in batches, in revision order, before the writers of that batch are woken. Since
everything happens on one loop, `since(...)` (or `await history(...)`) followed by `subscribe(...)` with no await
between them neither misses nor repeats an event. An empty batch tells a subscriber that events before it were lost
(only with etcd, after an outage longer than its history): the watch must end with 410, so that its client lists again.

A rule over many objects (a quota, a range of addresses) is checked against the state in memory, and a write then relies
on it. In a local store, `head` and `pending` show every accepted write. Where the log is shared, the write names a
*guard* that stands for the rule: it succeeds only if every earlier write under that guard was visible here when it was
submitted. Check and submit without an await between them.

An empty store is at revision 1, so that 0 stays free to mean "any". Revisions never go back, not even when the objects
move to a different store or come from a backup: the process that fills a store first calls `raise_floor` with a
revision above all that clients can have seen (`FLOOR_STEP` above the newest known one), so that each client gets 410.
"""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

import msgspec

PREFIX = b'{"metadata":{'
"""Every value starts with this and has at least one metadata field; the resource version is spliced in after it."""

FLOOR_STEP = 10**9
"""Distance between the newest known revision of a store and the first revision of the store that replaces it."""

_REVISION = b'{"metadata":{"resourceVersion":"'


class StoreError(Exception):
    """Root of the store's errors.

    StoreError ─┬─ Exists            create of a key that exists
                ├─ Missing           update or delete of a key that does not exist
                ├─ RevisionConflict  the key's revision is not the expected one
                ├─ Overtaken         a different write under the same guard came first
                ├─ Compacted         the requested history has been dropped
                ├─ FutureRevision    the requested revision is newer than the store
                └─ Unavailable       not acknowledged, outcome unknown
                     └─ Damaged      the bytes on disk are not those that were written
    """


class Exists(StoreError):
    """Create of a key that exists."""


class Missing(StoreError):
    """Update or delete of a key that does not exist."""


class RevisionConflict(StoreError):
    """The key's revision is not the expected one; `current` is the present revision."""

    def __init__(self, current: int) -> None:
        super().__init__(f"revision is {current}")
        self.current = current


class Overtaken(StoreError):
    """A different write under the same guard came first and is visible by now. Repeat the check."""


class Compacted(StoreError):
    """The requested revision is older than the retained history (410 Gone); `oldest` is the first valid one."""

    def __init__(self, oldest: int) -> None:
        super().__init__(f"history starts at {oldest}")
        self.oldest = oldest


class FutureRevision(StoreError):
    """The requested revision has not been assigned yet."""

    def __init__(self, current: int) -> None:
        super().__init__(f"revision is only {current}")
        self.current = current


class Unavailable(StoreError):
    """Not acknowledged, outcome unknown: disk error, etcd unreachable, shutting down."""


class Damaged(Unavailable):
    """The bytes on disk are not those that were written. Damaged data is never served."""


class Entry(msgspec.Struct, eq=False, gc=False):
    """One version of one object. Immutable; shared by state, history and every reader.

    `memo` belongs to the readers: it caches a result derived from this version. It must not reference the entry:
    entries are not tracked by the cyclic garbage collector (`gc=False`), so a cycle would leak.
    """

    name: str  # namespace/name or name; interned at its source, so that caches share the string
    revision: int  # of this version
    created: int  # revision of the create
    raw: bytes  # complete JSON, resource version included
    memo: Any = None

    def __repr__(self) -> str:  # the value may be secret
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
        self.remaining = remaining  # number of entries that follow


Subscriber = Callable[[Sequence[Event]], None]

Observer = Callable[[str, float], None]
"""Called for every write (`create`, `update`, `delete`: accepted to acknowledged) and `sync`, with its seconds."""


class Sealer(Protocol):
    """Encryption at rest: applied between memory and the durable log, to every value of every bucket.

    The sealer itself decides which buckets to seal; `open` must return the bytes that `seal` was given, on any thread.
    """

    @property
    def opened_first(self) -> Sequence[tuple[str, str]]:
        """Objects (bucket, name) that contain its keys. With a shared log, these are opened first."""
        ...

    def seal(self, bucket: str, name: str, value: bytes) -> bytes:
        """Return the bytes to store. Called once per write; in log order where the log is not shared."""
        ...

    def open(self, bucket: str, name: str, blob: bytes) -> bytes:
        """Return the value that was sealed. Raises ValueError with a text for the operator."""
        ...


class Reads(Protocol):
    """Reading and watching: a store, or a view of a part of one."""

    @property
    def revision(self) -> int:
        """The newest visible revision."""
        ...

    def fresh(self) -> Awaitable[None] | None:
        """Return None if memory is always current; otherwise an awaitable to await before a consistent read."""
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
    """The interface of every driver. All methods are called on the loop that ran `start`."""

    async def start(self) -> None:
        """Load state and history; after this reads work. Raises Unavailable with a text for the operator."""
        ...

    async def close(self) -> None:
        """Complete accepted writes, then release all resources."""
        ...

    def checks(self) -> Mapping[str, Callable[[], str | None]]:
        """Named health checks: each returns the current problem or None. `store` gives the reason why writes are
        refused.
        """
        ...

    def members(self) -> Mapping[str, bool]:
        """Voting members of a replicated store that Tarmac runs, by name, and whether each responds; else empty."""
        ...

    @property
    def shared(self) -> bool:
        """True if other servers write to the same log, so that guards are needed."""
        ...

    def head(self, bucket: str, name: str) -> Entry | None:
        """The newest accepted version, durable or not: the base of a read-modify-write."""
        ...

    def pending(self) -> Iterable[Event]:
        """The difference between `head` and `get`: for each key with accepted but invisible changes, the newest change.

        Empty where the log is shared: the writes in flight are unknown there.
        """
        ...

    def settled(self, revision: int = 0) -> Awaitable[None] | None:
        """Return None if readers see everything that `head` shows, up to `revision` if given; otherwise an awaitable.

        Raises Unavailable, when awaited, if a part of it was never written: conclusions drawn from it may be wrong.
        """
        ...

    def count(self, bucket: str) -> int:
        """Number of entries in the bucket."""
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
        """Replace the version `expected`. Raises Missing, RevisionConflict, Overtaken."""
        ...

    def delete(self, bucket: str, name: str, expected: int, value: bytes | None = None) -> Future[Entry]:
        """Remove the version `expected`. Raises Missing, RevisionConflict.

        `value` is the final state to show in the event, if it differs from the stored one. Resolves to that last entry.
        """
        ...

    async def compact(self, revision: int) -> None:
        """Forget history up to and including `revision`. Raises FutureRevision, Unavailable."""
        ...

    async def raise_floor(self, revision: int) -> None:
        """Never assign a revision up to and including this one again, and drop the history before it permanently.

        Objects keep their revisions. Afterwards `revision` is at least this one, every earlier one is Compacted, and
        subscribers get an empty batch. Only for filling a store that no server serves yet: no write may be in flight.
        Raises Unavailable.
        """
        ...

    async def raise_format(self) -> tuple[int, int]:
        """Write the newest format from now on; returns the previous and the new format. A local store has it at start.

        Call it only when every server that shares the store can read that format. Raises Unavailable.
        """
        ...


def splice(value: bytes, revision: int) -> bytes:
    """Return the complete object: `value` with its resource version. An exact-size copy, which matters for memory."""
    return b'{"metadata":{"resourceVersion":"%d",%b' % (revision, value[len(PREFIX) :])


def unsplice(entry: Entry) -> bytes:
    """Return the value that `entry` was made from."""
    return PREFIX + entry.raw[len(_REVISION) + len(str(entry.revision)) + 2 :]
