"""Requests that cover everything below the prefix."""

from __future__ import annotations

from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.records import EtcdLayout


def changes_after(records: EtcdLayout, revision: int, *, prev_kv: bool) -> pb.WatchCreateRequest:
    """Watch changes after `revision`; the change at `revision` itself may be delivered too.

    Starting one later would be wrong: etcd starts at the compacted revision, but a delete there is gone by then.
    """
    return pb.WatchCreateRequest(
        key=records.first,
        range_end=records.end,
        start_revision=records.mod_revision(revision),
        prev_kv=prev_kv,
        progress_notify=not prev_kv,
    )


def newest(records: EtcdLayout) -> pb.RangeRequest:
    """Request the key that changed last. Deletes change one, too."""
    return pb.RangeRequest(
        key=records.first,
        range_end=records.end,
        limit=1,
        sort_order=pb.RangeRequest.DESCEND,
        sort_target=pb.RangeRequest.MOD,
        keys_only=True,
    )
