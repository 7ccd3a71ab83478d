"""Several servers and other programs on one etcd: visibility and order of writes."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tarmac.base.clock import SystemClock
from tarmac.store.etcd import EtcdStore
from tarmac.store.etcd import driver as etcd_driver
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient, Lost
from tarmac.store.etcd.compaction import Compaction
from tarmac.store.interface import Event, Missing, Unavailable
from tests.store.conftest import EtcdPlace
from tests.store.objects import PODS, SECRETS, names, text, value
from tests.store.proxies import Proxy


async def _put(client: EtcdClient, key: str, content: bytes) -> None:
    put = pb.RequestOp(request_put=pb.PutRequest(key=key.encode(), value=content))
    await client.txn(pb.TxnRequest(success=[put]))


async def _two(place: EtcdPlace) -> tuple[EtcdStore, EtcdStore]:
    one, other = await place.open(), await place.open()
    assert isinstance(one, EtcdStore)
    assert isinstance(other, EtcdStore)
    return one, other


@pytest.mark.parametrize("believes_progress", [True, False], ids=["by progress", "by newest key"])
async def test_fresh_shows_what_another_server_wrote(
    etcd_place: EtcdPlace, monkeypatch: pytest.MonkeyPatch, believes_progress: bool
) -> None:
    """Creates, updates and deletes, on etcds with correct progress reports and with wrong ones."""
    if not believes_progress:
        monkeypatch.setattr(etcd_driver, "_reports_true_progress", lambda _version: False)
    one, other = await _two(etcd_place)
    for number in range(20):
        name = f"ns/{number}"
        created = await one.create(PODS, name, value("one"))
        await other.fresh()
        found = other.get(PODS, name)
        assert found is not None
        assert found.raw == created.raw
        updated = await other.update(PODS, name, value("two"), created.revision)
        await one.fresh()
        await one.delete(PODS, name, updated.revision)
        await other.fresh()
        assert other.get(PODS, name) is None


async def test_fresh_passes_revisions_that_are_not_ours(etcd_place: EtcdPlace) -> None:
    """Another program's writes move etcd's revision without changing an object of ours."""
    store = await etcd_place.open()
    assert isinstance(store, EtcdStore)
    client = EtcdClient(etcd_place.settings, SystemClock())
    for number in range(5):
        before = store.revision
        await _put(client, f"/elsewhere/{number}", b"x")
        await asyncio.gather(*(store.fresh() for _ in range(10)))
        assert store.revision > before or not store._trusts_progress
    await client.close()


async def test_refusals_come_with_what_caused_them(etcd_place: EtcdPlace) -> None:
    """A server with an old cache returns Missing only when its readers see the deletion, too."""
    one, other = await _two(etcd_place)
    entry = await one.create(PODS, "ns/a", value())
    await other.fresh()
    await one.delete(PODS, "ns/a", entry.revision)
    with pytest.raises(Missing):
        await other.update(PODS, "ns/a", value(), entry.revision)
    assert other.get(PODS, "ns/a") is None


async def test_both_servers_tell_the_same_story(etcd_place: EtcdPlace) -> None:
    """Same events, same revisions, same bytes, final states included."""
    one, other = await _two(etcd_place)
    stories: tuple[list[Event], list[Event]] = ([], [])
    one.subscribe(PODS, stories[0].extend)
    other.subscribe(PODS, stories[1].extend)

    async def write(store: EtcdStore, prefix: str) -> None:
        for number in range(15):
            entry = await store.create(PODS, f"{prefix}/{number}", value("one"))
            await store.delete(PODS, entry.name, entry.revision, value("final") if number % 2 else None)

    await asyncio.gather(write(one, "a"), write(other, "b"))
    await asyncio.gather(one.fresh(), other.fresh())
    told = [[(e.type, e.entry.revision, e.entry.raw) for e in story] for story in stories]
    assert told[0] == told[1]
    assert len(told[0]) == 60


async def test_keys_that_are_not_objects_are_ignored(etcd_place: EtcdPlace) -> None:
    """A stray key below our prefix hides no object."""
    client = EtcdClient(etcd_place.settings, SystemClock())
    prefix = etcd_place.settings.prefix
    await _put(client, f"{prefix}/stray", b"x")
    await _put(client, f"{prefix}/core/pods/ns/garbage", b"not an object")
    store = await etcd_place.open()
    await store.create(PODS, "ns/a", value())
    await _put(client, f"{prefix}/core/pods/ns/more-garbage", b"{}")
    await store.create(PODS, "ns/b", value())
    assert names(store.list(PODS).entries) == ["ns/a", "ns/b"]
    await client.close()


async def test_keys_lie_where_the_documentation_says(etcd_place: EtcdPlace) -> None:
    """PREFIX/group/resource/namespace/name, value without resource version."""
    store = await etcd_place.open()
    await store.create(SECRETS, "ns/a", value("x"))
    client = EtcdClient(etcd_place.settings, SystemClock())
    found = await client.range(pb.RangeRequest(key=f"{etcd_place.settings.prefix}/core/secrets/ns/a".encode()))
    assert [kv.value for kv in found.kvs] == [value("x")]
    await client.close()


async def test_one_server_compacts_and_the_others_stand_by(etcd_place: EtcdPlace) -> None:
    """Each round compacts the revision of the previous one, once."""
    client = EtcdClient(etcd_place.settings, SystemClock())
    compacted: list[int] = []

    async def note(revision: int) -> None:
        compacted.append(revision)

    client.compact = note
    key = f"{etcd_place.settings.prefix}/!compaction".encode()
    one, other = Compaction(client, key), Compaction(client, key)
    for _ in range(4):
        await one.round()
        await other.round()
    assert len(compacted) == 3
    assert compacted == sorted(set(compacted))
    await client.close()


async def test_a_server_that_slept_through_a_compaction_says_so(etcd_place: EtcdPlace) -> None:
    """The store loads again, and its subscribers get the empty batch that ends their watches."""
    writer = await etcd_place.open()
    async with Proxy(etcd_place.settings.endpoints[0]) as proxy:
        sleeper = EtcdStore(replace(etcd_place.settings, endpoints=(proxy.address,)))
        await sleeper.start()
        batches: list[list[str]] = []
        sleeper.subscribe(PODS, lambda events: batches.append(names(event.entry for event in events)))
        await writer.create(PODS, "ns/a", value())
        await sleeper.fresh()
        proxy.open = False
        proxy.cut()
        for number in range(10):
            await writer.create(PODS, f"ns/{number}", value())
        await writer.compact(writer.revision)
        await writer.create(PODS, "ns/z", value("late"))
        proxy.open = True
        await sleeper.fresh()
        assert batches[:2] == [["ns/a"], []]
        assert [e.raw for e in sleeper.list(PODS).entries] == [e.raw for e in writer.list(PODS).entries]
        await sleeper.close()


async def test_no_etcd_at_all() -> None:
    """The error at start names the address."""
    settings = EtcdPlace.settings_for(["127.0.0.1:1"])
    client = EtcdClient(settings, SystemClock())
    with pytest.raises(Lost, match=r"etcd at 127\.0\.0\.1:1 did not answer"):
        await client.txn(pb.TxnRequest())
    assert issubclass(Lost, Unavailable)
    await client.close()


@pytest.mark.parametrize(
    ("version", "good"),
    [("3.4.30", False), ("3.4.31", True), ("3.5.12", False), ("3.5.13", True), ("3.5.16", True), ("3.6.0-rc.1", True)],
)
def test_versions_whose_progress_is_believed(version: str, good: bool) -> None:
    """Progress reports were fixed in 3.4.31 and 3.5.13."""
    assert etcd_driver._reports_true_progress(version) is good


async def test_text(etcd_place: EtcdPlace) -> None:
    """Names and values are any text."""
    store = await etcd_place.open()
    entry = await store.create(PODS, "ns/größe", value("größe"))
    assert text(entry) == "größe"
    assert names(store.list(PODS).entries) == ["ns/größe"]
