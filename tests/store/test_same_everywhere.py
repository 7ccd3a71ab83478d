"""Random sequences of operations have the same visible result on every store, and it is the model's.

Revisions differ between stores (etcd counts more than ours), so before a comparison each is replaced by the number of
the write that made it.
"""

from __future__ import annotations

import asyncio
import json
import tempfile
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from tarmac.store.interface import FLOOR_STEP, Entry, Event, Store, StoreError
from tests.store.conftest import EtcdClusters, EtcdPlace, MemoryPlace, Place, SqlitePlace
from tests.store.model import Change, Model, Version, Write
from tests.store.objects import PODS, SECRETS, value

_BUCKETS = st.sampled_from([PODS, PODS, SECRETS])
_NAMES = st.sampled_from(["a/1", "a/2", "a-b/1", "b/1", "c"])
_PREFIXES = st.sampled_from(["", "", "a/", "a", "z"])
_WRITES = st.builds(
    Write,
    st.sampled_from(["put", "put", "put", "delete", "create", "update"]),
    _BUCKETS,
    _NAMES,
    st.text("xyz", min_size=0, max_size=3),
    st.sampled_from([False, False, False, True]),
)
_EXAMPLES = 30


class Subject:
    """One store, its revisions by number of write, and the events of a watcher."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.store: Store
        self.marks: list[int] = []
        self.events: list[Event] = []

    async def start(self) -> None:
        """Open it and watch."""
        self.store = await self.place.open()
        self.marks = self.marks or [self.store.revision]
        for bucket in (PODS, SECRETS):
            self.store.subscribe(bucket, self.events.extend)

    async def raise_floor(self) -> None:
        """Raise the floor before any write. Memory, which a close would empty, has only its own revisions."""
        if not isinstance(self.place, MemoryPlace):
            store = await self.place.open()
            await store.raise_floor(store.revision + FLOOR_STEP)
            await self.place.close(store)

    async def restart(self) -> None:
        """Restart all but memory, which would lose its objects."""
        if not isinstance(self.place, MemoryPlace):
            await self.place.close(self.store)
            await self.start()

    async def write(self, write: Write) -> Version:
        """One operation."""
        content = value(write.text)
        current = self.store.get(write.bucket, write.name)
        expected = self.marks[0] if write.stale or current is None else current.revision
        if write.action == "create":
            entry = await self.store.create(write.bucket, write.name, content)
        elif write.action == "update":
            entry = await self.store.update(write.bucket, write.name, content, expected)
        else:
            entry = await self.store.delete(write.bucket, write.name, expected, content if write.text else None)
        self.marks.append(entry.revision)
        return self.version(entry)

    def version(self, entry: Entry) -> Version:
        """Return a version in the model's terms."""
        metadata = json.loads(entry.raw)["metadata"]
        assert metadata["resourceVersion"] == str(entry.revision)
        number, created = self.marks.index(entry.revision), self.marks.index(entry.created)
        return Version(entry.name, number, created, metadata["name"])

    def change(self, event: Event) -> Change:
        """Return events in the model's terms."""
        previous = self.version(event.previous) if event.previous is not None else None
        return Change(event.type, event.bucket, self.version(event.entry), previous)


class SameEverywhere(RuleBasedStateMachine):
    """The same operations on all stores at once."""

    etcds: ClassVar[EtcdClusters]  # the framework makes the machines itself

    def __init__(self) -> None:
        super().__init__()
        self._runner = asyncio.Runner()
        self._folder = tempfile.TemporaryDirectory()
        places: list[Place] = [MemoryPlace(), SqlitePlace(Path(self._folder.name)), EtcdPlace(*self.etcds.get("etcd"))]
        self._subjects = [Subject(place) for place in places]
        self._model = Model()
        self._restarted = 0  # number of the last write before the last restart

    @initialize(raised=st.booleans())
    def start(self, raised: bool) -> None:
        """Open them all; some of the time as stores that have replaced another one."""
        if raised:
            self._on_each(Subject.raise_floor)
        self._on_each(Subject.start)

    def teardown(self) -> None:
        """Close them all."""
        self._on_each(lambda subject: subject.place.close_all())
        self._runner.close()
        self._folder.cleanup()

    def _on_each(self, action: Callable[[Subject], Coroutine[Any, Any, Any]]) -> list[Any]:
        async def all_of_them() -> list[Any]:
            return list(await asyncio.gather(*(action(subject) for subject in self._subjects)))

        return self._runner.run(all_of_them())

    def _expect(self, expected: Any, action: Callable[[Subject], Coroutine[Any, Any, Any]]) -> None:
        """Each store returns the model's result, errors by their kind."""

        async def outcome(subject: Subject) -> Any:
            try:
                return await action(subject)
            except StoreError as error:
                return type(error).__name__

        for subject, found in zip(self._subjects, self._on_each(outcome), strict=True):
            assert found == expected, f"{type(subject.store).__name__} says {found}, expected is {expected}"

    @rule(writes=st.lists(_WRITES, min_size=1, max_size=5))
    def write(self, writes: list[Write]) -> None:
        """Right and wrong revisions."""
        for write in writes:
            exact = write._replace(action=self._model.action_of(write))
            self._expect(self._model.write(exact), lambda subject, exact=exact: subject.write(exact))

    @rule(bucket=_BUCKETS, prefix=_PREFIXES, after=st.just("") | _NAMES, limit=st.integers(0, 3), data=st.data())
    def list(self, bucket: str, prefix: str, after: str, limit: int, data: st.DataObject) -> None:
        """A page of the present or of the past, as far as memory has history since the last restart."""
        number = data.draw(st.integers(self._restarted, self._model.now))

        async def page(subject: Subject) -> Any:
            revision = subject.marks[number]
            found = subject.store.list(bucket, prefix, after=after, limit=limit, revision=revision)
            return [subject.version(entry) for entry in found.entries], found.remaining

        self._expect(self._model.page(bucket, prefix, after, limit, number), page)

    @rule(bucket=_BUCKETS, prefix=_PREFIXES, data=st.data())
    def history(self, bucket: str, prefix: str, data: st.DataObject) -> None:
        """History from any revision, over restarts; or Compacted, on all of them alike."""
        number = data.draw(st.integers(0, self._model.now))

        async def history(subject: Subject) -> Any:
            events = await subject.store.history(bucket, subject.marks[number], prefix)
            return [subject.change(event) for event in events]

        self._expect(self._model.history(bucket, prefix, number), history)

    @rule(data=st.data())
    def compact(self, data: st.DataObject) -> None:
        """Compact up to some revision, often not all of it."""
        number = data.draw(st.integers(0, max(0, self._model.now - 3)))
        self._expect(None, lambda subject: subject.store.compact(subject.marks[number]))
        self._model.compacted = max(self._model.compacted, number)

    @rule()
    def restart(self) -> None:
        """Close and open."""
        self._on_each(Subject.restart)
        self._restarted = self._model.now

    @invariant()
    def everything_looks_right(self) -> None:
        """Objects, and events of watchers over all restarts."""

        async def look(subject: Subject) -> Any:
            objects = {
                (bucket, entry.name): subject.version(entry)
                for bucket in (PODS, SECRETS)
                for entry in subject.store.list(bucket).entries
            }
            counts = [subject.store.count(bucket) for bucket in (PODS, SECRETS)]
            return objects, counts, [subject.change(event) for event in subject.events]

        if self._subjects[0].marks:
            self._expect((self._model.snapshots[-1], self._model.counts(), self._model.changes), look)


@pytest.mark.timeout(300)  # a failure is minimized first
def test_random_operations_look_the_same_on_every_store(etcds: EtcdClusters) -> None:
    """Memory, SQLite and a real etcd must be indistinguishable from the model."""
    SameEverywhere.etcds = etcds
    run_state_machine_as_test(
        SameEverywhere,
        settings=settings(
            max_examples=_EXAMPLES,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
        ),
    )
