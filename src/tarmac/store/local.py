"""Base of the drivers that own their log: accepts writes, tracks head, and turns accepted writes into visible ones.

A write is checked against head, gets the next revision and joins the queue. The queue is taken as one batch, made
durable by the driver, published, and only then are its writers woken. While a batch is in flight, new writes queue for
the next one, so batches size themselves: one write when the store is idle, as many as there are writers under load.

Head is the visible state overlaid with `_pending`: for each key with writes in flight, the newest of them. When a batch
fails, every write stacked on it fails as well and the overlay is dropped. Its revisions are not reused: a caller may
still hold an entry read from head, and a later version must not match it by its number.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from asyncio import AbstractEventLoop, Future
from collections.abc import Callable, Iterable, Mapping, Sequence
from sys import intern
from typing import Literal

from tarmac.base.clock import Clock, SystemClock
from tarmac.store.interface import (
    Entry,
    Event,
    Exists,
    Missing,
    Observer,
    RevisionConflict,
    Unavailable,
    splice,
    unsplice,
)
from tarmac.store.state import VisibleState

_OPERATION = {"ADDED": "create", "MODIFIED": "update", "DELETED": "delete"}


class Write:
    """One accepted write in flight. `value` is the logged value: None for a delete that shows the stored state."""

    __slots__ = ("accepted", "done", "event", "value")

    def __init__(self, event: Event, value: bytes | None, done: Future[Entry], accepted: float) -> None:
        self.event = event
        self.value = value
        self.done = done
        self.accepted = accepted


class LocalStore(VisibleState, ABC):
    """A store that alone assigns revisions."""

    def __init__(self, *, clock: Clock | None = None, observer: Observer | None = None) -> None:
        super().__init__()
        self._clock: Clock = clock or SystemClock()
        self._observer = observer
        self._loop: AbstractEventLoop
        self._accepted = self.revision  # the newest assigned revision
        self._pending: dict[tuple[str, str], Event] = {}
        self._queue: list[Write] = []
        self._settling: list[tuple[int, Future[None]]] = []  # futures waiting until that revision is visible
        self._busy = False  # a batch is scheduled or in flight
        self._refusal: str | None = "the store is not started"  # the reason why writes are refused
        self._drained: Future[None] | None = None

    @abstractmethod
    def _commit(self, batch: list[Write]) -> None:
        """Make the batch durable, then call `_committed` or `_failed`, now or later, on the loop."""

    async def start(self) -> None:
        """Start accepting writes."""
        self._loop = asyncio.get_running_loop()
        self._accepted = self.revision
        self._refusal = None

    async def close(self) -> None:
        """Complete accepted writes; refuse new ones."""
        self._refusal = "the store is shutting down"
        if self._busy:
            # `_next_batch` sets it when the queue is empty. Closing the file earlier would fail writes that were
            # accepted.
            self._drained = self._loop.create_future()
            await self._drained

    def fresh(self) -> None:
        """None: memory is always current."""
        return

    def checks(self) -> dict[str, Callable[[], str | None]]:
        """`store`: the reason why writes are refused."""
        return {"store": lambda: self._refusal}

    def members(self) -> Mapping[str, bool]:
        """None: the store is a single file, or memory."""
        return {}

    def head(self, bucket: str, name: str) -> Entry | None:
        """The newest accepted version, durable or not."""
        event = self._pending.get((bucket, name))
        if event is None:
            return self.get(bucket, name)
        return None if event.type == "DELETED" else event.entry

    @property
    def shared(self) -> bool:
        """False: this object is the only writer of the log, however many servers use it."""
        return False

    def pending(self) -> Iterable[Event]:
        """The difference between `head` and `get`."""
        return self._pending.values()

    def settled(self, revision: int = 0) -> Future[None] | None:
        """Return None if no write is in flight up to `revision`, or at all."""
        # Revisions of a failed batch are assigned and never become visible: only pending ones can be awaited.
        if not self._pending or 0 < revision <= self.revision:
            return None
        seen: Future[None] = self._loop.create_future()
        self._settling.append((revision or self._accepted, seen))
        return seen

    def create(self, bucket: str, name: str, value: bytes, *, guards: Sequence[str] = ()) -> Future[Entry]:
        """Add a key. No write can come between a check and this one, so guards are ignored."""
        if self.head(bucket, name) is not None:
            raise Exists(f"{bucket}/{name} exists")
        revision = self._accepted + 1
        entry = Entry(intern(name), revision, revision, splice(value, revision))
        return self._accept("ADDED", bucket, entry, None, value)

    def update(
        self, bucket: str, name: str, value: bytes, expected: int, *, guards: Sequence[str] = ()
    ) -> Future[Entry]:
        """Replace the version `expected`. Guards are ignored, as in `create`."""
        current = self._expect(bucket, name, expected)
        revision = self._accepted + 1
        entry = Entry(current.name, revision, current.created, splice(value, revision))
        return self._accept("MODIFIED", bucket, entry, current, value)

    def delete(self, bucket: str, name: str, expected: int, value: bytes | None = None) -> Future[Entry]:
        """Remove the version `expected`."""
        current = self._expect(bucket, name, expected)
        revision = self._accepted + 1
        final = unsplice(current) if value is None else value
        entry = Entry(current.name, revision, current.created, splice(final, revision))
        return self._accept("DELETED", bucket, entry, current, value)

    async def history(self, bucket: str, revision: int, prefix: str = "") -> Sequence[Event]:
        """Read from memory, which holds all the history there is."""
        return self.since(bucket, revision, prefix)

    async def compact(self, revision: int) -> None:
        """Forget history up to and including `revision`."""
        self.forget(revision)

    async def raise_floor(self, revision: int) -> None:
        """Continue above `revision`; a driver with a log on disk has raised the log's floor before."""
        self.raise_to(revision)
        self._accepted = max(self._accepted, self.revision)

    async def raise_format(self) -> tuple[int, int]:
        """Return the only format: it was written at open, and no other server reads it."""
        return 1, 1

    def _expect(self, bucket: str, name: str, expected: int) -> Entry:
        current = self.head(bucket, name)
        if current is None:
            raise Missing(f"{bucket}/{name} does not exist")
        if current.revision != expected:
            raise RevisionConflict(current.revision)
        return current

    def _accept(
        self,
        type: Literal["ADDED", "MODIFIED", "DELETED"],
        bucket: str,
        entry: Entry,
        previous: Entry | None,
        value: bytes | None,
    ) -> Future[Entry]:
        if self._refusal is not None:
            # Before `_accepted` advances: a refused write must not take a revision.
            raise Unavailable(self._refusal)
        event = Event(type, bucket, entry, previous)
        done: Future[Entry] = self._loop.create_future()
        self._accepted = entry.revision
        self._pending[bucket, entry.name] = event
        self._queue.append(Write(event, value, done, self._clock.monotonic()))
        # Deferred: all writes accepted in the same loop iteration become durable with one sync.
        if not self._busy:
            self._busy = True
            self._loop.call_soon(self._next_batch)
        return done

    def _next_batch(self) -> None:
        """Commit the queued writes, or become idle."""
        batch, self._queue = self._queue, []
        self._busy = bool(batch)
        if batch:
            self._commit(batch)
        elif self._drained is not None and not self._drained.done():
            self._drained.set_result(None)

    def _committed(self, batch: list[Write]) -> None:
        """The batch is durable: publish it, wake its writers, start the next one."""
        # The overlay is removed before the state changes, with no await in between, so no caller reads in between. A
        # key that was written again meanwhile keeps its newer write, which belongs to the next batch.
        for write in batch:
            event = write.event
            key = (event.bucket, event.entry.name)
            if self._pending.get(key) is event:
                del self._pending[key]
        self.publish([write.event for write in batch])
        if self._observer is not None:
            now = self._clock.monotonic()
            for write in batch:
                self._observer(_OPERATION[write.event.type], now - write.accepted)
        # After `publish`: a writer that has the acknowledgement must be able to read its write.
        for write in batch:
            if not write.done.done():  # its caller may have been cancelled
                write.done.set_result(write.event.entry)
        if self._settling:
            self._wake_settled()

    def _wake_settled(self) -> None:
        waiting, self._settling = self._settling, []
        for revision, seen in waiting:
            if revision > self.revision:
                # Its batch is still in flight; waking it now would report state that a crash could undo.
                self._settling.append((revision, seen))
            elif not seen.done():
                seen.set_result(None)

    def _failed(self, batch: list[Write], why: str) -> None:
        """The batch is not durable: fail it and every write stacked on it. No reader saw any of them."""
        # Writes queued meanwhile were checked against a head that never existed. Every pending write is in the batch or
        # in the queue, as only one batch is in flight.
        batch, self._queue = batch + self._queue, []
        self._pending.clear()
        for write in batch:
            if not write.done.done():
                write.done.set_exception(Unavailable(why))
        waiting, self._settling = self._settling, []
        for _, seen in waiting:
            if not seen.done():
                seen.set_exception(Unavailable(why))
