"""`!format`: the format version that the servers below a prefix write; 1 if absent.

    1  objects, the last delete, guards, the compaction key
    2  besides: an offset of revisions, the mark of a copy, and a backup that replaces the objects

Each version of Tarmac reads this format and the one before. It writes the older one until every server that shares the
prefix reads the newer; only then is the number raised, by one compare-and-put transaction.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient, Lost
from tarmac.store.formats import too_new
from tarmac.store.interface import Unavailable

FORMAT = 2


def check_format(kvs: Iterable[pb.KeyValue], key: bytes) -> int:
    """Return the format below the prefix, if its key is among `kvs`. Raises Unavailable when it is too new."""
    found = next((int(kv.value) for kv in kvs if kv.key == key), 1)
    if found > FORMAT:
        raise Unavailable(too_new(found, FORMAT))
    return found


async def raise_format(client: EtcdClient, key: bytes) -> int:
    """Raise the prefix to the newest format; returns the format before. Raises Unavailable."""
    while True:
        found = await client.range(pb.RangeRequest(key=key))
        before = check_format(found.kvs, key)
        if before == FORMAT:
            return before
        seen = found.kvs[0].mod_revision if found.kvs else 0
        unchanged = pb.Compare(target=pb.Compare.MOD, result=pb.Compare.EQUAL, key=key, mod_revision=seen)
        put = pb.RequestOp(request_put=pb.PutRequest(key=key, value=b"%d" % FORMAT))
        try:
            response = await client.txn(pb.TxnRequest(compare=[unchanged], success=[put]))
        except Lost:
            continue  # the next read tells whether it was written
        if response.succeeded:
            return before
