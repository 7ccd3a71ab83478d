"""The format number of an etcd prefix: read, raised once, and refused when it is too new."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.base.clock import SystemClock
from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient
from tarmac.store.etcd.format import FORMAT
from tarmac.store.interface import Unavailable
from tests.store.conftest import EtcdPlace
from tests.store.objects import PODS, value


async def _format(place: EtcdPlace, write: bytes = b"") -> bytes:
    client = EtcdClient(place.settings, SystemClock())
    key = f"{place.settings.prefix}/!format".encode()
    try:
        if write:
            put = pb.RequestOp(request_put=pb.PutRequest(key=key, value=write))
            await client.txn(pb.TxnRequest(success=[put]))
        found = await client.range(pb.RangeRequest(key=key))
    finally:
        await client.close()
    return found.kvs[0].value if found.kvs else b""


async def test_it_is_1_until_somebody_raises_it_and_of_several_one_does(etcd_place: EtcdPlace) -> None:
    one, two = await etcd_place.open(), await etcd_place.open()
    await one.create(PODS, "a", value())
    assert await _format(etcd_place) == b"", "servers of the previous version can read the objects"
    raised = await asyncio.gather(one.raise_format(), two.raise_format())
    assert sorted(raised) == [(1, FORMAT), (FORMAT, FORMAT)]
    assert await _format(etcd_place) == b"%d" % FORMAT
    assert two.get(PODS, "a") is not None
    again = await etcd_place.open()
    assert again.get(PODS, "a") is not None
    assert await again.raise_format() == (FORMAT, FORMAT)


async def test_a_format_that_is_too_new_is_not_opened(etcd_place: EtcdPlace) -> None:
    await _format(etcd_place, b"%d" % (FORMAT + 1))
    with pytest.raises(
        Unavailable, match=rf"has format {FORMAT + 1}, tarmac \S+ knows up to {FORMAT}: install the new"
    ):
        await etcd_place.open()
