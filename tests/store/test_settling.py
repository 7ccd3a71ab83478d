"""Accepted writes become visible, or fail, before decisions based on them are reported."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.store.interface import Store, Unavailable
from tests.store.conftest import SqlitePlace
from tests.store.objects import PODS, value


async def test_readers_see_what_head_shows_when_it_is_settled(store: Store) -> None:
    assert store.settled() is None
    creating = [store.create(PODS, f"ns/{number}", value()) for number in range(3)]
    heads = [store.head(PODS, f"ns/{number}") for number in range(3)]
    if (waiting := store.settled()) is not None:
        await waiting
    assert [store.get(PODS, f"ns/{number}") for number in range(3)] == heads
    await asyncio.gather(*creating)
    assert store.settled() is None


async def test_settling_does_not_wait_for_later_writes(sqlite_place: SqlitePlace) -> None:
    store = await sqlite_place.open()
    first = store.create(PODS, "ns/first", value())
    head = store.head(PODS, "ns/first")
    assert head is not None
    await asyncio.sleep(0)  # its batch has started
    second = store.create(PODS, "ns/second", value())
    waiting = store.settled(head.revision)
    assert waiting is not None
    await waiting
    assert store.get(PODS, "ns/first") is not None
    assert store.get(PODS, "ns/second") is None
    assert store.settled(head.revision) is None
    await asyncio.gather(first, second)


async def test_waiters_for_a_failed_write_fail(sqlite_place: SqlitePlace) -> None:
    store = sqlite_place.make()
    await store.start()
    sqlite_place.stores.append(store)
    store._file._writer.execute("PRAGMA max_page_count = 1").fetchall()
    creating = store.create(PODS, "ns/large", value(size=100_000))
    waiting, abandoned = store.settled(), store.settled()
    assert waiting is not None
    assert abandoned is not None
    abandoned.cancel()
    with pytest.raises(Unavailable, match="the disk is full"):
        await waiting
    with pytest.raises(Unavailable):
        await creating
    assert store.settled() is None, "a revision of a failed write does not hold up waiters"
