"""Lifts the revisions of an etcd above those of the store it replaces.

The offset is one key below the prefix (`records`). It only grows: revisions that clients have seen must stay behind.
Writing it, even unchanged, makes everything before count as compacted, so a repeated move leaves no client behind.
"""

from __future__ import annotations

from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient, Lost
from tarmac.store.etcd.records import EtcdLayout


async def write_offset(client: EtcdClient, records: EtcdLayout, revision: int, still: pb.Compare | None = None) -> int:
    """Make every later revision greater than `revision`; returns where history begins. Raises Unavailable.

    Where `still` does not hold, a different process has done so: running servers would lose their history.
    """
    key = records.offset_key
    while still is None or await _holds(client, still):
        found = await client.range(pb.RangeRequest(key=key))
        present = found.kvs[0] if found.kvs else pb.KeyValue(value=b"0")
        offset = max(int(present.value), revision - found.header.revision)
        unchanged = pb.Compare(
            target=pb.Compare.MOD, result=pb.Compare.EQUAL, key=key, mod_revision=present.mod_revision
        )
        put = pb.RequestOp(request_put=pb.PutRequest(key=key, value=b"%d" % offset))
        try:
            response = await client.txn(pb.TxnRequest(compare=[unchanged, *([still] if still else [])], success=[put]))
        except Lost:
            continue  # written or not: the next read tells, and writing it twice is harmless
        if response.succeeded:
            return response.header.revision + offset
    return revision


async def _holds(client: EtcdClient, still: pb.Compare) -> bool:
    found = await client.range(pb.RangeRequest(key=still.key, keys_only=True))
    return bool(found.kvs) and found.kvs[0].mod_revision == still.mod_revision
