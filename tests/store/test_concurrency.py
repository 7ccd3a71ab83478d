"""Concurrent writers: exactly one of those that replace the same version wins."""

from __future__ import annotations

import asyncio

from tarmac.store.interface import Entry, Exists, RevisionConflict, Store, StoreError
from tests.store.conftest import EtcdPlace, Place
from tests.store.objects import PODS, text, value


async def _increment(store: Store, times: int) -> int:
    """Add to a counter by compare-and-swap; return the number of retries."""
    conflicts = 0
    for _ in range(times):
        while True:
            head = store.head(PODS, "ns/counter")
            assert head is not None
            try:
                await store.update(PODS, "ns/counter", value(str(int(text(head)) + 1)), head.revision)
                break
            except RevisionConflict:
                conflicts += 1
    return conflicts


async def test_no_increment_is_lost(store: Store) -> None:
    """Ten writers, one counter."""
    await store.create(PODS, "ns/counter", value("0"))
    await asyncio.gather(*(_increment(store, 20) for _ in range(10)))
    found = store.get(PODS, "ns/counter")
    assert found is not None
    assert text(found) == "200"


async def test_no_increment_is_lost_between_two_servers(etcd_place: EtcdPlace) -> None:
    """Two servers share one etcd and write to one object."""
    one, other = await etcd_place.open(), await etcd_place.open()
    await one.create(PODS, "ns/counter", value("0"))
    fresh = other.fresh()
    assert fresh is not None
    await fresh
    conflicts = await asyncio.gather(*(_increment(store, 25) for store in (one, other, one, other)))
    assert sum(conflicts) > 0, "the writers never conflicted"
    for store in (one, other):
        fresh = store.fresh()
        assert fresh is not None
        await fresh
        found = store.get(PODS, "ns/counter")
        assert found is not None
        assert text(found) == "100"


async def test_of_many_creates_of_one_name_one_wins(store: Store) -> None:
    """The rest get Exists."""

    async def create(number: int) -> Entry | StoreError:
        try:
            return await store.create(PODS, "ns/a", value(str(number)))
        except StoreError as error:
            return error

    results = await asyncio.gather(*(create(number) for number in range(20)))
    winners = [result for result in results if isinstance(result, Entry)]
    assert len(winners) == 1
    assert all(isinstance(result, Exists) for result in results if not isinstance(result, Entry))
    found = store.get(PODS, "ns/a")
    assert found is not None
    assert found.raw == winners[0].raw


async def test_close_finishes_what_was_accepted(place: Place) -> None:
    """Writers that wait when the store closes get their acknowledgement."""
    store = await place.open()
    pending = [store.create(PODS, f"ns/{number}", value()) for number in range(30)]
    await asyncio.sleep(0)
    await place.close(store)
    assert len({(await write).revision for write in pending}) == 30
