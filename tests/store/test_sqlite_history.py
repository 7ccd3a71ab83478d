"""The change log in the file: its limits, and its use for changes that memory no longer has."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import pytest

from tarmac.base.clock import ManualClock
from tarmac.store.interface import Compacted, Store
from tests.store.conftest import SqlitePlace
from tests.store.objects import PODS, SECRETS, revisions, value


async def _churn(store: Store, count: int) -> None:
    """Write changes of few objects, each a revision."""
    for number in range(count):
        name = f"ns/{number % 5}"
        head = store.head(PODS, name)
        if head is None:
            await store.create(PODS, name, value(str(number)))
        elif number % 7:
            await store.update(PODS, name, value(str(number)), head.revision)
        else:
            await store.delete(PODS, name, head.revision)


async def test_history_is_kept_by_age_and_by_number(sqlite_place: SqlitePlace) -> None:
    """Young changes stay, in any number; old ones stay while they are among the last so many."""
    clock = ManualClock()
    store = sqlite_place.make(clock=clock, keep_seconds=300, keep_events=200)
    await store.start()
    sqlite_place.stores.append(store)
    await _churn(store, 900)
    assert store._file.floor == 1, "changes younger than five minutes were deleted"
    clock.advance(301)
    await _churn(store, 50)
    floor = store._file.floor
    assert floor == store.revision - 200 or floor > store.revision - 200 - 70
    assert floor <= store.revision - 200
    end = store.revision
    await sqlite_place.close(store)

    with closing(sqlite3.connect(sqlite_place.path)) as db:
        (rows,) = db.execute("SELECT count(*) FROM log").fetchone()
    assert rows <= end - floor + 5, "replaced versions were not deleted"
    store = await sqlite_place.open(clock=clock)
    assert revisions(await store.history(PODS, floor)) == list(range(floor + 1, end + 1))
    with pytest.raises(Compacted):
        await store.history(PODS, floor - 1)


async def test_a_start_remembers_as_much_as_memory_keeps(sqlite_place: SqlitePlace) -> None:
    """Contents are whole, recent changes are in memory, and so is that nothing happened to a bucket since."""
    store = await sqlite_place.open()
    await store.create(SECRETS, "ns/a", value())
    await _churn(store, 300)
    newest = store.revision
    pods = [(entry.name, entry.raw) for entry in store.list(PODS).entries]
    await sqlite_place.close(store)

    again = sqlite_place.make()
    again._keep_events = 40
    await again.start()
    sqlite_place.stores.append(again)
    assert [(entry.name, entry.raw) for entry in again.list(PODS).entries] == pods
    assert again.revision == newest
    assert revisions(again.since(PODS, newest - 40)) == list(range(newest - 39, newest + 1))
    assert again.since(SECRETS, 2) == []
    with pytest.raises(Compacted):
        again.since(PODS, newest - 41)
    assert revisions(await again.history(PODS, 2)) == list(range(3, newest + 1))
    assert [(e.name, e.raw) for e in again.list(PODS, revision=newest - 20).entries]


async def test_the_file_reaches_further_back_than_memory(sqlite_place: SqlitePlace) -> None:
    """Memory is bounded; a read joins older changes from the file with those in memory."""
    store = sqlite_place.make()
    store._keep_events = 40
    await store.start()
    sqlite_place.stores.append(store)
    await _churn(store, 300)
    await store.create(SECRETS, "ns/a", value())
    with pytest.raises(Compacted):
        store.since(PODS, 1)
    assert revisions(await store.history(PODS, 1)) == list(range(2, 302))
    assert revisions(await store.history(PODS, 100, "ns/3")) == [
        event.entry.revision for event in await store.history(PODS, 100) if event.entry.name == "ns/3"
    ]
    await sqlite_place.close(store)

    again = sqlite_place.make()
    again._keep_events = 40
    await again.start()
    sqlite_place.stores.append(again)
    assert len(again._window) == 40
    assert revisions(again.since(PODS, again.revision - 30)) == list(range(again.revision - 29, again.revision))


async def test_memory_is_bounded_by_bytes_too(sqlite_place: SqlitePlace) -> None:
    """Large objects push history out sooner."""
    store = sqlite_place.make()
    store._keep_bytes = 1_000_000
    await store.start()
    sqlite_place.stores.append(store)
    entry = await store.create(PODS, "ns/a", value())
    for _ in range(60):
        entry = await store.update(PODS, "ns/a", value(size=50_000), entry.revision)
    assert 10 < len(store.since(PODS, store._buckets[PODS].floor)) < 25
    assert len(await store.history(PODS, 1)) == 61


@pytest.mark.parametrize("seconds", [-400 * 24 * 3600.0, 400 * 24 * 3600.0], ids=["back", "forward"])
async def test_a_clock_that_was_set_makes_no_history_endless(seconds: float, sqlite_place: SqlitePlace) -> None:
    """Changes with a time in the future would stay young until that time comes."""
    clock = ManualClock()
    store = sqlite_place.make(clock=clock, keep_seconds=300, keep_events=200)
    await store.start()
    sqlite_place.stores.append(store)
    await _churn(store, 900)
    clock.jump(seconds)
    clock.advance(301)
    await _churn(store, 50)
    assert store._file.floor > store.revision - 200 - 70
    await _churn(store, 900)
    clock.advance(301)
    await _churn(store, 50)
    assert store._file.floor > store.revision - 200 - 70
