"""Compaction of a shared etcd by one server per interval.

Every server wakes at the same interval and tries to increment one shared key from the version it saw last. The server
that succeeds compacts to the revision that was current one interval ago; all other servers see that the key moved and
wait for the next round. So etcd keeps between one and two intervals of history, however many servers share it.
"""

from __future__ import annotations

from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient


class Compaction:
    """One server's view of the shared key."""

    def __init__(self, client: EtcdClient, key: bytes) -> None:
        self._client = client
        self._key = key
        self._version = 0
        self._revision = 0  # etcd's, as of the last round

    async def round(self) -> None:
        """Run one round. Raises Unavailable; the next round starts from the key's current version."""
        unchanged = pb.Compare(target=pb.Compare.VERSION, key=self._key, version=self._version)
        count_up = pb.RequestOp(request_put=pb.PutRequest(key=self._key, value=b"%d" % self._revision))
        look = pb.RequestOp(request_range=pb.RangeRequest(key=self._key))
        response = await self._client.txn(pb.TxnRequest(compare=[unchanged], success=[count_up], failure=[look]))
        if response.succeeded:
            self._version += 1
            if self._revision:
                await self._client.compact(self._revision)
        else:
            self._version = next((kv.version for kv in response.responses[0].response_range.kvs), 0)
        self._revision = response.header.revision
