"""`!fill`: that the objects below a prefix are being brought from another store, or were.

While they are, no server starts on the prefix: it would serve half of them, and make what it misses. The mark names the
store that they come from, so that only the same copy is gone on with, and in the end what was there when it was
complete, so that nobody who repeats it overwrites what servers have written since.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import EtcdClient
from tarmac.store.interface import Unavailable


@dataclass(frozen=True)
class FillMark:
    """Whence, and how far."""

    source: str  # the id of the other store
    complete: bool = False
    digest: str = ""  # of the contents when it was complete


def read_mark(value: bytes) -> FillMark:
    """As it lies there. Raises Unavailable."""
    try:
        return msgspec.json.decode(value, type=FillMark)
    except msgspec.DecodeError as error:
        raise Unavailable(f"the mark of a copy into this prefix cannot be read: {error}") from error


async def write_mark(client: EtcdClient, key: bytes, mark: FillMark) -> None:
    """Put it there. Raises Unavailable."""
    put = pb.RequestOp(request_put=pb.PutRequest(key=key, value=msgspec.json.encode(mark)))
    await client.persistent_txn(pb.TxnRequest(success=[put]))
