"""Revisions never go back: a store that replaces another one begins above all revisions that clients know."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

import pytest

from tarmac.store.interface import FLOOR_STEP, Compacted, Event, RevisionConflict, Store
from tarmac.store.sqlite.marker import marker_path
from tarmac.store.sqlite.repairing import examine, repair
from tests.store.conftest import EtcdPlace, Place, SqlitePlace
from tests.store.objects import PODS, decoded, names, revisions, text, value


async def _caught_up(store: Store) -> None:
    waiting = store.fresh()
    assert waiting is not None
    await waiting


async def _gone(store: Store, revision: int) -> None:
    with pytest.raises(Compacted):
        store.since(PODS, revision)
    with pytest.raises(Compacted):
        await store.history(PODS, revision)
    with pytest.raises(Compacted):
        store.list(PODS, revision=revision)


async def test_everything_before_the_floor_is_gone_and_everything_after_it_is_above(store: Store) -> None:
    """The objects stay; watches get an error that makes them list again; new history begins."""
    before = [(await store.create(PODS, f"ns/{number}", value())).revision for number in range(4)]
    batches: list[Sequence[Event]] = []
    store.subscribe(PODS, batches.append)
    floor = store.revision + FLOOR_STEP

    await store.raise_floor(floor)

    assert store.revision >= floor
    assert batches == [()] or batches == [[]]
    assert names(store.list(PODS).entries) == [f"ns/{number}" for number in range(4)]
    for revision in (*before, floor - FLOOR_STEP // 2):
        await _gone(store, revision)
    start = store.revision
    entry = await store.create(PODS, "ns/new", value("new"))
    assert entry.revision > floor
    assert decoded(entry)["metadata"]["resourceVersion"] == str(entry.revision)
    assert revisions(store.since(PODS, start)) == [entry.revision]
    assert revisions(await store.history(PODS, start)) == [entry.revision]
    assert revisions(batches[-1]) == [entry.revision]


async def test_objects_are_written_on_as_before(store: Store) -> None:
    """Updates need the new revision; one from before the move is a conflict, never a create."""
    await store.create(PODS, "ns/a", value("one"))
    old = store.revision
    await store.raise_floor(old + FLOOR_STEP)
    shown = store.get(PODS, "ns/a")
    assert shown is not None
    for wrong in (1, shown.revision + FLOOR_STEP, store.revision):
        with pytest.raises(RevisionConflict) as refused:
            await store.update(PODS, "ns/a", value("x"), wrong)
        assert refused.value.current == shown.revision
    second = await store.update(PODS, "ns/a", value("two"), shown.revision)
    gone = await store.delete(PODS, "ns/a", second.revision)
    assert old + FLOOR_STEP < second.revision < gone.revision
    again = await store.create(PODS, "ns/a", value("three"), guards=("rule",))
    assert again.created == again.revision > gone.revision


async def test_a_floor_that_is_behind_only_forgets(store: Store) -> None:
    """Nothing goes back."""
    for number in range(3):
        await store.create(PODS, f"ns/{number}", value())
    before = store.revision
    await store.raise_floor(2)
    assert store.revision >= before
    await _gone(store, before - 1)
    assert (await store.create(PODS, "ns/new", value())).revision > before


async def test_it_outlives_the_process(durable_place: Place) -> None:
    """Raised twice, with writes around it, and opened again after each."""
    store = await durable_place.open()
    highest = 0
    for turn in range(3):
        await store.create(PODS, f"ns/{turn}", value(str(turn)))
        floor = store.revision + FLOOR_STEP
        await store.raise_floor(floor)
        await durable_place.close(store)
        store = await durable_place.open()
        assert store.revision >= floor > highest
        await _gone(store, floor - 1)
        highest = store.revision
        entry = await store.create(PODS, f"ns/after-{turn}", value())
        assert entry.revision > highest
    await durable_place.close(store)
    store = await durable_place.open()
    assert revisions(await store.history(PODS, highest)) == [store.revision]
    assert store.count(PODS) == 6
    await store.compact(store.revision)


async def test_a_server_beside_it_hears_of_it(etcd_place: EtcdPlace) -> None:
    """The other store loads again, ends its watches, and both continue from the same revision."""
    one, other = await etcd_place.open(), await etcd_place.open()
    entry = await one.create(PODS, "ns/a", value("one"))
    await _caught_up(other)
    batches: list[Sequence[Event]] = []
    other.subscribe(PODS, batches.append)
    await one.raise_floor(entry.revision + FLOOR_STEP)
    await _caught_up(other)
    second = await one.create(PODS, "ns/b", value("two"))
    await _caught_up(other)
    found = other.get(PODS, "ns/b")
    assert found is not None
    assert (found.revision, text(found)) == (second.revision, "two")
    assert list(batches[0]) == []
    assert [each.revision for each in other.list(PODS).entries] == [each.revision for each in one.list(PODS).entries]


async def test_a_reader_is_as_far_as_every_other_after_fresh(etcd_place: EtcdPlace) -> None:
    """etcd's newest revision may be outside our prefix: still no server knows a later revision than another."""
    one = await etcd_place.open()
    await one.create(PODS, "ns/a", value())
    stranger = EtcdPlace(etcd_place.cluster, etcd_place.folder)
    await (await stranger.open()).create(PODS, "ns/elsewhere", value())
    await stranger.close_all()
    late = await etcd_place.open()
    await _caught_up(one)
    assert one.revision >= late.revision
    assert one.since(PODS, late.revision) == []


async def test_a_repair_keeps_above_the_floor(sqlite_place: SqlitePlace) -> None:
    """The repair works without the marker, the other place that keeps the store's revision."""
    store = await sqlite_place.open()
    await store.create(PODS, "ns/old", value())
    floor = store.revision + FLOOR_STEP
    await store.raise_floor(floor)
    await store.create(PODS, "ns/new", value())
    await sqlite_place.close(store)
    marker_path(sqlite_place.path).unlink()
    with sqlite3.connect(sqlite_place.path) as db:
        db.execute("DELETE FROM log WHERE name = 'ns/new'")
    db.close()

    findings = examine(sqlite_place.path, lambda: "id")
    assert findings is not None
    assert findings.floor > floor
    repair(sqlite_place.path, findings, lambda: "id")
    store = await sqlite_place.open()
    assert names(store.list(PODS).entries) == ["ns/old"]
    assert store.revision > floor
