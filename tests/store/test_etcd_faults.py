"""etcd members die and networks break while servers write: no acknowledged write is lost, no event lost or repeated."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.store.etcd import EtcdStore
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import Lost
from tarmac.store.etcd.settings import EtcdSettings
from tarmac.store.interface import Entry, Event, Missing, RevisionConflict, Unavailable
from tests.store.conftest import ETCDS, EtcdPlace, etcd_binary
from tests.store.objects import PODS, revisions, text, told, value
from tests.store.proxies import Proxy
from tests.support.etcd import EtcdCluster


@pytest.fixture(params=ETCDS)
def three_members(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[EtcdCluster]:
    """A cluster that survives the loss of one."""
    cluster = EtcdCluster(etcd_binary(request.param), tmp_path, members=3)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


class Writer:
    """Counts up in its own objects and records acknowledged writes."""

    def __init__(self, store: EtcdStore, number: int) -> None:
        self._store = store
        self._number = number
        self.acknowledged: list[Entry] = []
        self.unknown = 0
        self.going = True

    async def run(self) -> None:
        """Write until `going` is false."""
        count = 0
        while self.going:
            name = f"{self._number}/{count % 3}"
            head = self._store.get(PODS, name)
            count += 1
            try:
                if head is None:
                    entry = await self._store.create(PODS, name, value(f"{count}"))
                elif count % 5:
                    entry = await self._store.update(PODS, name, value(f"{count}"), head.revision)
                else:
                    entry = await self._store.delete(PODS, name, head.revision)
            except Unavailable:
                self.unknown += 1
            else:
                self.acknowledged.append(entry)


async def test_the_leader_is_killed_during_writes(three_members: EtcdCluster) -> None:
    """Twice, with two servers writing and watching."""
    settings = EtcdSettings(endpoints=tuple(three_members.endpoints), compact_seconds=0)
    stores = [EtcdStore(settings), EtcdStore(replace(settings, endpoints=settings.endpoints[::-1]))]
    stories: list[list[Event]] = [[], []]
    for store, story in zip(stores, stories, strict=True):
        await store.start()
        store.subscribe(PODS, story.extend)
    start = max(store.revision for store in stores)
    writers = [Writer(store, number) for number, store in enumerate(stores * 4)]
    running = [asyncio.ensure_future(writer.run()) for writer in writers]
    for _ in range(2):
        await asyncio.sleep(0.5)
        leader = await asyncio.to_thread(three_members.leader)
        three_members.kill_member(leader)
        counts = [len(writer.acknowledged) for writer in writers]
        async with asyncio.timeout(20):  # until all writers write again
            while any(len(writer.acknowledged) < count + 5 for writer, count in zip(writers, counts, strict=True)):
                await asyncio.sleep(0.05)
        three_members.start_member(leader)
        await asyncio.to_thread(three_members.wait_ready)
    for writer in writers:
        writer.going = False
    await asyncio.gather(*running)
    await asyncio.gather(*(store.fresh() for store in stores))

    assert revisions(stories[0]) == revisions(stories[1]) == sorted(set(revisions(stories[0])))
    raw = {event.entry.revision: event.entry.raw for event in stories[0]}
    for writer in writers:
        assert [raw.get(entry.revision) for entry in writer.acknowledged] == [e.raw for e in writer.acknowledged]
    late = EtcdStore(settings)
    await late.start()
    assert [e.raw for e in late.list(PODS).entries] == [e.raw for e in stores[0].list(PODS).entries]
    assert revisions(await late.history(PODS, start)) == revisions(stories[0])
    assert sum(writer.unknown for writer in writers) == 0, "an outage of a second is no reason to give up"
    for store in [*stores, late]:
        await store.close()


async def test_a_write_whose_answer_is_lost_is_resolved(etcd_place: EtcdPlace) -> None:
    """The write happened once, its writer gets success, watchers see it once."""
    async with Proxy(etcd_place.settings.endpoints[0]) as proxy:
        store = EtcdStore(replace(etcd_place.settings, endpoints=(proxy.address,)))
        await store.start()
        events: list[Event] = []
        store.subscribe(PODS, events.extend)
        proxy.swallow_replies = True
        created = await store.create(PODS, "ns/a", value("one"))
        proxy.swallow_replies = True
        updated = await store.update(PODS, "ns/a", value("two"), created.revision)
        proxy.swallow_replies = True
        deleted = await store.delete(PODS, "ns/a", updated.revision, value("final"))
        assert proxy.swallowed == 3
        assert told(events) == [("ADDED", "ns/a", "one"), ("MODIFIED", "ns/a", "two"), ("DELETED", "ns/a", "final")]
        assert revisions(events) == [created.revision, updated.revision, deleted.revision]
        await store.close()


async def test_a_lost_answer_is_not_taken_for_success(etcd_place: EtcdPlace) -> None:
    """When another server's write came first, the write whose response was lost is rejected as usual."""
    other = await etcd_place.open()
    async with Proxy(etcd_place.settings.endpoints[0]) as proxy:
        store = EtcdStore(replace(etcd_place.settings, endpoints=(proxy.address,)))
        await store.start()
        entry = await store.create(PODS, "ns/a", value("one"))
        theirs = await other.update(PODS, "ns/a", value("theirs"), entry.revision)
        proxy.swallow_replies = True
        with pytest.raises(RevisionConflict) as refused:
            await store.update(PODS, "ns/a", value("ours"), entry.revision)
        assert refused.value.current == theirs.revision
        await other.delete(PODS, "ns/a", theirs.revision)
        proxy.swallow_replies = True
        with pytest.raises(Missing):
            await store.delete(PODS, "ns/a", theirs.revision)
        await store.close()


async def test_a_watch_resumes_where_it_broke(etcd_place: EtcdPlace) -> None:
    """Connections are cut repeatedly while another server writes."""
    writer = await etcd_place.open()
    async with Proxy(etcd_place.settings.endpoints[0]) as proxy:
        store = EtcdStore(replace(etcd_place.settings, endpoints=(proxy.address,)))
        await store.start()
        events: list[Event] = []
        store.subscribe(PODS, events.extend)
        for number in range(30):
            await writer.create(PODS, f"ns/{number}", value(str(number)))
            if number % 5 == 0:
                proxy.cut()
        await store.fresh()
        assert [text(event.entry) for event in events] == [str(number) for number in range(30)]
        await store.close()


async def test_a_lost_create_that_arrives_after_the_objects_end_does_nothing(etcd_place: EtcdPlace) -> None:
    store = await etcd_place.open()
    assert isinstance(store, EtcdStore)
    client = store._client
    under_way: list[pb.TxnRequest] = []
    real = client.txn

    async def slow(request: pb.TxnRequest, timeout: float = 1.0) -> pb.TxnResponse:
        if under_way:
            return await real(request, timeout)
        under_way.append(request)
        raise Lost("it is still on its way")

    client.txn = slow  # type: ignore[method-assign]
    made, beside = await asyncio.gather(
        store.create(PODS, "default/a", value("1")), store.create(PODS, "default/b", value("2"))
    )
    assert (text(made), text(beside)) == ("1", "2")
    await store.delete(PODS, "default/a", made.revision)
    late = await real(under_way[0])
    assert not late.succeeded
    await store.fresh()
    assert store.get(PODS, "default/a") is None
    assert store.get(PODS, "default/b") is not None
