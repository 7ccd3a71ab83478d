"""A backup takes the place of the objects below a prefix: a kill leaves the old ones, or all of the new.

First every object of the backup is prepared below `!restored/`, where no server looks. Then one key, `!restore`, says
that those are the store. Whoever opens the store and finds that key puts them in place before anything else: the
restore itself, or the server that starts after a restore that was killed.

What was prepared stays until all of it is in place, so this can be begun again at any point. Several may do it at once:
each write asks whether `!restore` is still the same, so one that is slow writes nothing over what servers have written
since another has finished.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence

from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient, Lost
from tarmac.store.etcd.loading import pages, pages_between
from tarmac.store.etcd.offset import write_offset
from tarmac.store.etcd.records import Records

_AT_ONCE = 256


async def prepare(client: EtcdClient, records: Records, objects: Iterable[tuple[str, str, bytes]]) -> None:
    """Lay bucket, name and value of each object ready, in order, and nothing else. Raises Unavailable."""
    first, end = records.prepared
    leftover = pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=first, range_end=end))
    await _written(client, pb.TxnRequest(success=[leftover]))
    puts = [_put(records.prepared_key(bucket, name), value) for bucket, name, value in objects]
    await _in_turns(client, [pb.TxnRequest(success=[put]) for put in puts])


async def commit(client: EtcdClient, records: Records, floor: int) -> None:
    """What was prepared is the store from now on, and every revision is above `floor`. Raises Unavailable."""
    await _written(client, pb.TxnRequest(success=[_put(records.restore_key, b"%d" % floor)]))


async def finish_restore(client: EtcdClient, records: Records) -> None:
    """Put in place what was prepared, if that was begun. Raises Compacted, Unavailable."""
    found = await client.range(pb.RangeRequest(key=records.restore_key))
    if not found.kvs:
        return
    mark = found.kvs[0]
    still = pb.Compare(
        target=pb.Compare.MOD, result=pb.Compare.EQUAL, key=records.restore_key, mod_revision=mark.mod_revision
    )
    await write_offset(client, records, int(mark.value), still)
    for writes in await _movements(client, records):
        await _in_turns(client, [pb.TxnRequest(compare=[still], success=[each]) for each in writes])
    first, end = records.prepared
    done = (
        _delete(records.restore_key),
        pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=first, range_end=end)),
    )
    await _written(client, pb.TxnRequest(compare=[still], success=done))


async def _movements(client: EtcdClient, records: Records) -> tuple[list[pb.RequestOp], list[pb.RequestOp]]:
    """Deletes of what the backup does not have, and then what it has, in the order in which it was prepared."""
    prepared = [kv async for page in pages_between(client, *records.prepared) for kv in page.kvs]
    wanted = {records.place_of(kv.key) for kv in prepared}
    present = [kv.key async for page in pages(client, records) for kv in page.kvs if records.is_object(kv.key)]
    prepared.sort(key=lambda kv: kv.mod_revision)
    puts = [_put(records.place_of(kv.key), kv.value) for kv in prepared]
    return [_delete(key) for key in present if key not in wanted], puts


async def _in_turns(client: EtcdClient, writes: Sequence[pb.TxnRequest]) -> None:
    for start in range(0, len(writes), _AT_ONCE):
        await asyncio.gather(*(_written(client, each) for each in writes[start : start + _AT_ONCE]))


async def _written(client: EtcdClient, request: pb.TxnRequest) -> None:
    while True:
        try:
            await client.txn(request)
            return
        except Lost:
            continue  # twice does no harm


def _put(key: bytes, value: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_put=pb.PutRequest(key=key, value=value))


def _delete(key: bytes) -> pb.RequestOp:
    return pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key))
