"""`!fill`: marks a prefix whose objects are being copied from a different store, or were.

During the copy no server starts on the prefix: it would serve a part of the objects, and create the missing ones. The
mark names the source store, so that only the same copy can be resumed. A complete copy records the digest of its
contents, so that repeating it does not overwrite later writes of servers.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient
from tarmac.store.interface import Unavailable


@dataclass(frozen=True)
class FillMark:
    """The source of a copy, and its progress."""

    source: str  # id of the source store
    complete: bool = False
    digest: str = ""  # of the contents at completion


def read_mark(value: bytes) -> FillMark:
    """Decode the stored mark. Raises Unavailable."""
    try:
        return msgspec.json.decode(value, type=FillMark)
    except msgspec.DecodeError as error:
        raise Unavailable(f"the mark of a copy into this prefix cannot be read: {error}") from error


async def write_mark(client: EtcdClient, key: bytes, mark: FillMark) -> None:
    """Store the mark. Raises Unavailable."""
    put = pb.RequestOp(request_put=pb.PutRequest(key=key, value=msgspec.json.encode(mark)))
    await client.persistent_txn(pb.TxnRequest(success=[put]))
