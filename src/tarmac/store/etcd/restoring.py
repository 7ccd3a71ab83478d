"""Replaces the objects below a prefix by a backup: after a kill, all old or all new objects are there.

First every object of the backup is prepared below `!restored/`, which no server reads. Then one key, `!restore`, makes
them the store. A process that opens the store and finds that key moves them into place before anything else: the
restore itself, or the server that starts after a killed restore.

The prepared objects stay until all of them are in place, so this can be started again at any point. Several processes
may do it at once: each write compares `!restore`, so a slow process overwrites nothing that servers wrote after a
faster one finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient, Lost
from tarmac.store.etcd.loading import pages, pages_between
from tarmac.store.etcd.offset import write_offset
from tarmac.store.etcd.records import EtcdLayout

_MAX_CONCURRENT_WRITES = 256


async def prepare(client: EtcdClient, records: EtcdLayout, objects: Iterable[tuple[str, str, bytes]]) -> None:
    """Store bucket, name and value of each object as prepared, in order, and nothing else. Raises Unavailable."""
    first, end = records.prepared
    leftover = pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=first, range_end=end))
    await _commit_retrying(client, pb.TxnRequest(success=[leftover]))
    puts = [_put(records.prepared_key(bucket, name), value) for bucket, name, value in objects]
    await _in_rounds(client, [pb.TxnRequest(success=[put]) for put in puts])


async def commit(client: EtcdClient, records: EtcdLayout, floor: int) -> None:
    """Make the prepared objects the store, with every revision above `floor`. Raises Unavailable."""
    await _commit_retrying(client, pb.TxnRequest(success=[_put(records.restore_key, b"%d" % floor)]))


async def finish_restore(client: EtcdClient, records: EtcdLayout) -> None:
    """Move the prepared objects into place, if a restore was committed. Raises Compacted, Unavailable."""
    found = await client.range(pb.RangeRequest(key=records.restore_key))
    if not found.kvs:
        return
    mark = found.kvs[0]
    still = pb.Compare(
        target=pb.Compare.MOD, result=pb.Compare.EQUAL, key=records.restore_key, mod_revision=mark.mod_revision
    )
    # The offset first: the moved objects must get revisions above the floor. The mark goes last, so a kill at any point
    # leaves it for the next process.
    await write_offset(client, records, int(mark.value), still)
    for writes in await _movements(client, records):
        await _in_rounds(client, [pb.TxnRequest(compare=[still], success=[each]) for each in writes])
    first, end = records.prepared
    done = (
        _delete(records.restore_key),
        pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=first, range_end=end)),
    )
    await _commit_retrying(client, pb.TxnRequest(compare=[still], success=done))


async def _movements(client: EtcdClient, records: EtcdLayout) -> tuple[list[pb.RequestOp], list[pb.RequestOp]]:
    """Return deletes of objects missing in the backup, then puts of its objects in the order of preparation."""
    prepared = [kv async for page in pages_between(client, *records.prepared) for kv in page.kvs]
    wanted = {records.place_of(kv.key) for kv in prepared}
    present = [kv.key async for page in pages(client, records) for kv in page.kvs if records.is_object(kv.key)]
    prepared.sort(key=lambda kv: kv.mod_revision)
    puts = [_put(records.place_of(kv.key), kv.value) for kv in prepared]
    return [_delete(key) for key in present if key not in wanted], puts


async def _in_rounds(client: EtcdClient, writes: Sequence[pb.TxnRequest]) -> None:
    for start in range(0, len(writes), _MAX_CONCURRENT_WRITES):
        await asyncio.gather(
            *(_commit_retrying(client, each) for each in writes[start : start + _MAX_CONCURRENT_WRITES])
        )


async def _commit_retrying(client: EtcdClient, request: pb.TxnRequest) -> None:
    while True:
        try:
            await client.txn(request)
            return
        except Lost:
            continue  # idempotent


def _put(key: bytes, value: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value))


def _delete(key: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
