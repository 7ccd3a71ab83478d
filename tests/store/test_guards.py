"""A rule over many objects holds for all servers of one log: writes that were checked against an old state fail."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.store.etcd import EtcdStore
from tarmac.store.interface import Exists, Overtaken, RevisionConflict, Store
from tests.store.conftest import EtcdPlace
from tests.store.objects import PODS, value

GUARD = "quota/team"


async def test_of_two_servers_that_checked_the_same_state_one_writes(etcd_place: EtcdPlace) -> None:
    one, other = await _two(etcd_place)
    for number in range(10):
        servers = {"one": one, "other": other}
        writes = [each.create(PODS, f"ns/{name}-{number}", value(), guards=[GUARD]) for name, each in servers.items()]
        outcomes = await asyncio.gather(*writes, return_exceptions=True)
        assert sorted(type(each).__name__ for each in outcomes) == ["Entry", "Overtaken"]
        assert one.count(PODS) == number + 1
        await one.fresh()
        await other.fresh()


async def _two(place: EtcdPlace) -> tuple[EtcdStore, EtcdStore]:
    one, other = await place.open(), await place.open()
    assert isinstance(one, EtcdStore)
    assert isinstance(other, EtcdStore)
    return one, other


async def test_overtaken_writers_can_read_the_write_before_theirs(etcd_place: EtcdPlace) -> None:
    one, other = await _two(etcd_place)
    late = other.create(PODS, "ns/late", value(), guards=[GUARD])
    early = one.create(PODS, "ns/early", value(), guards=[GUARD])
    outcomes = await asyncio.gather(early, late, return_exceptions=True)
    loser = other if isinstance(outcomes[1], Overtaken) else one
    assert loser.count(PODS) == 1
    await loser.create(PODS, "ns/again", value(), guards=[GUARD])


async def test_other_guards_and_writes_without_one_are_not_held_up(etcd_place: EtcdPlace) -> None:
    one, other = await _two(etcd_place)
    await asyncio.gather(
        one.create(PODS, "ns/a", value(), guards=[GUARD]),
        other.create(PODS, "ns/b", value(), guards=["quota/other"]),
        other.create(PODS, "ns/c", value()),
    )


async def test_a_write_under_several_guards_needs_them_all(etcd_place: EtcdPlace) -> None:
    one, other = await _two(etcd_place)
    entry = await one.create(PODS, "ns/a", value(), guards=[GUARD])
    await other.fresh()
    both = other.update(PODS, "ns/a", value("two"), entry.revision, guards=[GUARD, "services"])
    single = one.create(PODS, "ns/b", value(), guards=["services"])
    outcomes = await asyncio.gather(both, single, return_exceptions=True)
    assert [type(each) for each in outcomes].count(Overtaken) == 1


async def test_guards_outlive_the_servers_that_wrote_under_them(etcd_place: EtcdPlace) -> None:
    one = await etcd_place.open()
    await one.create(PODS, "ns/a", value(), guards=[GUARD])
    other = await etcd_place.open()
    await other.create(PODS, "ns/b", value(), guards=[GUARD])
    assert [entry.name for entry in other.list(PODS).entries] == ["ns/a", "ns/b"]


async def test_the_object_itself_is_looked_at_first(store: Store) -> None:
    entry = await store.create(PODS, "ns/a", value(), guards=[GUARD])
    await store.update(PODS, "ns/a", value("two"), entry.revision, guards=[GUARD])
    with pytest.raises(Exists):
        await store.create(PODS, "ns/a", value(), guards=[GUARD])
    with pytest.raises(RevisionConflict):
        await store.update(PODS, "ns/a", value("three"), entry.revision, guards=[GUARD])


async def test_pending_lists_accepted_writes_of_an_unshared_log(store: Store) -> None:
    writing = store.create(PODS, "ns/a", value())
    assert [event.entry.name for event in store.pending()] == ([] if store.shared else ["ns/a"])
    await writing
    assert not list(store.pending())
