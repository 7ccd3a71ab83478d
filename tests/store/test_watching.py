"""Readers of history and subscribers see every change of the bucket exactly once, in revision order."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

import pytest

from tarmac.store.interface import Compacted, Event, FutureRevision, Store, StoreError
from tests.store.objects import PODS, SECRETS, decoded, names, revisions, text, told, value


async def _churn(store: Store, seed: int, writes: int) -> None:
    """Make random creates, updates and deletes, which may conflict with other writers."""
    dice = random.Random(seed)
    for number in range(writes):
        name = f"ns/{dice.randrange(12)}"
        head = store.head(PODS, name)
        try:
            if head is None:
                await store.create(PODS, name, value(f"{seed}-{number}"))
            elif dice.random() < 0.3:
                await store.delete(PODS, name, head.revision)
            else:
                await store.update(PODS, name, value(f"{seed}-{number}"), head.revision)
        except StoreError:
            pass


def _replayed(start: dict[str, bytes], events: Sequence[Event]) -> dict[str, bytes]:
    """Apply the events; fail on any event that does not fit the state before."""
    objects = dict(start)
    for event in events:
        name = event.entry.name
        before = event.previous.raw if event.previous is not None else None
        assert objects.get(name) == before, f"{event.type} of {name} does not follow what was told before"
        assert (event.type == "ADDED") == (name not in objects)
        if event.type == "DELETED":
            del objects[name]
        else:
            objects[name] = event.entry.raw
    return objects


async def test_events_tell_what_happened(store: Store) -> None:
    """Type, new version, version replaced."""
    events: list[Event] = []
    store.subscribe(PODS, events.extend)
    first = await store.create(PODS, "ns/a", value("one"))
    second = await store.update(PODS, "ns/a", value("two"), first.revision)
    third = await store.delete(PODS, "ns/a", second.revision)
    assert told(events) == [("ADDED", "ns/a", "one"), ("MODIFIED", "ns/a", "two"), ("DELETED", "ns/a", "two")]
    assert revisions(events) == [first.revision, second.revision, third.revision]
    assert [event.previous and event.previous.revision for event in events] == [None, first.revision, second.revision]
    assert {event.bucket for event in events} == {PODS}


async def test_a_delete_can_show_a_final_state(store: Store) -> None:
    """The removal of the last finalizer is such a delete: the shown version was never stored."""
    events: list[Event] = []
    store.subscribe(PODS, events.extend)
    start = store.revision
    entry = await store.create(PODS, "ns/a", value("stored"))
    deleted = await store.delete(PODS, "ns/a", entry.revision, value("final"))
    assert text(deleted) == "final"
    assert decoded(deleted)["metadata"]["resourceVersion"] == str(deleted.revision)
    for told_again in (events, store.since(PODS, start), await store.history(PODS, start)):
        assert told(told_again) == [("ADDED", "ns/a", "stored"), ("DELETED", "ns/a", "final")]
        assert told_again[1].previous is not None
        assert text(told_again[1].previous) == "stored"


async def test_an_event_comes_before_its_acknowledgement(store: Store) -> None:
    """A writer that wakes up finds that every watcher has the event."""
    events: list[Event] = []
    store.subscribe(PODS, events.extend)
    for number in range(10):
        entry = await store.create(PODS, f"ns/{number}", value())
        assert events[-1].entry.revision == entry.revision


async def test_subscribers_hear_their_bucket_until_they_leave(store: Store) -> None:
    """A subscriber that fails does not affect the other ones."""
    pods: list[Event] = []
    secrets: list[Event] = []

    def broken(_: Sequence[Event]) -> None:
        raise RuntimeError("listener is broken")

    store.subscribe(PODS, broken)
    leave = store.subscribe(PODS, pods.extend)
    store.subscribe(SECRETS, secrets.extend)
    await store.create(PODS, "ns/a", value())
    await store.create(SECRETS, "ns/b", value())
    leave()
    leave()
    await store.create(PODS, "ns/c", value())
    assert names(event.entry for event in pods) == ["ns/a"]
    assert names(event.entry for event in secrets) == ["ns/b"]


async def test_history_by_prefix(store: Store) -> None:
    """A watch of one namespace."""
    start = store.revision
    for name in ("a/1", "b/1", "a/2"):
        await store.create(PODS, name, value(name))
    await store.create(SECRETS, "a/3", value())
    assert names(event.entry for event in store.since(PODS, start, "a/")) == ["a/1", "a/2"]
    assert names(event.entry for event in await store.history(PODS, start, "a/")) == ["a/1", "a/2"]
    assert store.since(PODS, store.revision) == []
    with pytest.raises(FutureRevision):
        store.since(PODS, store.revision + 1)
    with pytest.raises(FutureRevision):
        await store.history(PODS, store.revision + 1)


async def test_every_change_exactly_once_under_concurrent_writers(store: Store) -> None:
    """Watchers join at any moment, from any revision; each can rebuild the state and none sees a revision twice."""
    snapshots: list[tuple[dict[str, bytes], list[Event]]] = []

    async def join_now_and_then() -> None:
        for number in range(20):
            page = store.list(PODS)
            start = {entry.name: entry.raw for entry in page.entries}
            await asyncio.sleep(0.001 * (number % 4))
            missed = await store.history(PODS, page.revision) if number % 2 else store.since(PODS, page.revision)
            events = list(missed)
            store.subscribe(PODS, events.extend)
            snapshots.append((start, events))

    await asyncio.gather(join_now_and_then(), *(_churn(store, seed, 40) for seed in range(6)))
    final = {entry.name: entry.raw for entry in store.list(PODS).entries}
    assert len(snapshots) == 20
    for start, events in snapshots:
        assert revisions(events) == sorted(set(revisions(events)))
        assert _replayed(start, events) == final


async def test_compacted_history_is_gone_and_says_so(store: Store) -> None:
    """All events from the compacted revision on are still there."""
    start = store.revision
    marks = [(await store.create(PODS, f"ns/{number}", value())).revision for number in range(6)]
    await store.compact(marks[2])
    for revision in (start, marks[1]):
        with pytest.raises(Compacted):
            store.since(PODS, revision)
        with pytest.raises(Compacted):
            await store.history(PODS, revision)
    assert revisions(store.since(PODS, marks[2])) == marks[3:]
    assert revisions(await store.history(PODS, marks[2])) == marks[3:]
    await store.compact(marks[1])  # less than before: nothing to do
    with pytest.raises(FutureRevision):
        await store.compact(store.revision + 100)
    assert store.count(PODS) == 6
