"""A backup replaces the objects in etcd: a server that starts at any point finds the old objects or the new."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.base.clock import SystemClock
from tarmac.store.backups.etcdplace import EtcdPlace as Restored
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient
from tarmac.store.etcd.records import EtcdLayout
from tarmac.store.etcd.restoring import commit, finish_restore, prepare
from tarmac.store.interface import FLOOR_STEP, Compacted, Store, Unavailable
from tests.store.conftest import EtcdPlace
from tests.store.objects import PODS, SECRETS, value

BACKUP = [(PODS, f"ns/{number:03}", value(f"backup-{number}")) for number in range(300)]


def _names(store: Store) -> set[str]:
    return {entry.name for entry in store.list(PODS).entries}


def _tools(place: EtcdPlace) -> tuple[EtcdClient, EtcdLayout]:
    return EtcdClient(place.settings, SystemClock()), EtcdLayout(place.settings.prefix, None)


async def _old(place: EtcdPlace) -> int:
    store = await place.open()
    for name in ("ns/000", "ns/old"):
        await store.create(PODS, name, value("old"))
    revision = store.revision
    await place.close(store)
    return revision


async def test_prepared_objects_are_nobodys_until_it_is_said_that_they_are_the_store(etcd_place: EtcdPlace) -> None:
    newest = await _old(etcd_place)
    client, records = _tools(etcd_place)
    await prepare(client, records, [(PODS, "ns/half", value("of a restore that was killed"))])
    store = await etcd_place.open()
    assert _names(store) == {"ns/000", "ns/old"}
    await etcd_place.close(store)
    await prepare(client, records, BACKUP)
    await commit(client, records, newest + FLOOR_STEP)
    await client.close()

    # it was killed here: the server that starts finishes it
    store = await etcd_place.open()
    assert _names(store) == {name for _, name, _ in BACKUP}
    first = store.get(PODS, "ns/000")
    assert first is not None
    assert b"backup-0" in first.raw
    assert store.revision > newest + FLOOR_STEP
    with pytest.raises(Compacted):
        await store.history(PODS, newest)
    assert await _left(etcd_place) == 0


async def _left(place: EtcdPlace) -> int:
    client, records = _tools(place)
    first, end = records.prepared
    found = [await client.range(pb.RangeRequest(key=first, range_end=end))]
    found.append(await client.range(pb.RangeRequest(key=records.restore_key)))
    await client.close()
    return sum(len(each.kvs) for each in found)


async def test_of_several_who_finish_it_none_writes_over_what_a_server_has_written_since(
    etcd_place: EtcdPlace,
) -> None:
    """Each run is interrupted somewhere, repeatedly; then one succeeds and serves, and the rest finishes later."""
    await _old(etcd_place)
    client, records = _tools(etcd_place)
    await prepare(client, records, BACKUP)
    await commit(client, records, FLOOR_STEP)
    for step in range(1, 12):
        finishing = asyncio.ensure_future(finish_restore(client, records))
        await asyncio.wait((finishing,), timeout=0.004 * step)
        finishing.cancel()
        await asyncio.wait((finishing,))
    late = [asyncio.ensure_future(finish_restore(client, records)) for _ in range(3)]
    store = await etcd_place.open()
    for name in ("ns/000", "ns/299"):
        entry = store.get(PODS, name)
        assert entry is not None
        await store.update(PODS, name, value("since"), entry.revision)
    await asyncio.gather(*late)
    await client.close()
    again = await etcd_place.open()
    assert _names(again) == {name for _, name, _ in BACKUP}
    for name in ("ns/000", "ns/299"):
        entry = again.get(PODS, name)
        assert entry is not None
        assert b"since" in entry.raw


async def test_where_servers_write_nothing_is_replaced(etcd_place: EtcdPlace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarmac.store.backups.etcdplace.QUIET_SECONDS", 0.3)
    url = f"etcd://{','.join(etcd_place.settings.endpoints)}?prefix={etcd_place.settings.prefix}&compact=0"
    store = await etcd_place.open()
    lease = b'{"metadata":{"name":"tarmac"},"spec":{"holderIdentity":"one"}}'
    entry = await store.create("coordination.k8s.io/leases", "kube-system/tarmac", lease)
    await store.create(SECRETS, "ns/word", value("sealed"))
    place = Restored(url, SystemClock())
    assert len((await place.present()).rows) == 2, "its server was killed"
    looking = asyncio.ensure_future(place.present())
    while not looking.done():
        entry = await store.update("coordination.k8s.io/leases", "kube-system/tarmac", lease, entry.revision)
        await asyncio.sleep(0.05)
    with pytest.raises(Unavailable, match=r"servers write below /.*: stop all of them first"):
        await looking
    await place.close()
