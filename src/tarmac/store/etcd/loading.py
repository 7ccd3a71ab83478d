"""Reads everything below the prefix, page by page at one revision.

Pages are counted in keys, messages in bytes: after a page that was large, or too large to be read at all, the next ones
have half as many keys. The objects that contain sealing keys are read before all pages: a different server may have
sealed objects with keys that this one does not know yet.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.client import AnswerTooLong, EtcdClient
from tarmac.store.etcd.records import EtcdLayout

_MAX_KEYS = 500
_LARGE_PAGE = 16 << 20


def pages(client: EtcdClient, records: EtcdLayout) -> AsyncIterator[pb.RangeResponse]:
    """Yield all pages, at the revision of the first. Raises Compacted, Unavailable."""
    return pages_between(client, records.first, records.end)


async def pages_between(client: EtcdClient, first: bytes, end: bytes) -> AsyncIterator[pb.RangeResponse]:
    """Yield the pages of a key range."""
    limit, key, revision, more = _MAX_KEYS, first, 0, True
    while more:
        request = pb.RangeRequest(key=key, range_end=end, limit=limit, revision=revision)
        try:
            page = await client.range(request)
        except AnswerTooLong:
            if limit == 1:
                raise
            limit //= 2
            continue
        yield page
        revision = revision or page.header.revision
        more = page.more
        key = page.kvs[-1].key + b"\0" if page.kvs else key
        if page.ByteSize() > _LARGE_PAGE:
            limit = max(1, limit // 2)


async def open_first(client: EtcdClient, records: EtcdLayout) -> None:
    """Open the objects that contain the sealer's keys. Raises Unavailable."""
    for key in records.opened_first():
        for _ in records.objects((await client.range(pb.RangeRequest(key=key))).kvs):
            pass  # opening them is enough
