"""One write to etcd, from the transaction to the proof of its outcome.

Each write is a transaction that compares the object's mod_revision, so sending it again is harmless: at most one copy
can succeed. When an attempt gets no response (`Lost`), the driver catches up with etcd and checks whether its own watch
delivered this very write; if not, it is sent again. A copy that fails its comparison after a lost one proves nothing by
itself, as the lost one may have changed the revision, so the watch is checked again.

A lost copy may be in flight for longer than the next copy and a delete take together. Revisions never repeat, so a late
update or delete then finds a different revision and does nothing. A late create would find no such key and create the
object once more; so creates also compare the mod_revision of a fence. A writer that loses a create moves the fence
before it checks and retries: a copy that arrives after that does nothing. Creates of other writers that the move
overtakes get a response, and are sent again with the current fence.

A write under guards also compares and puts the guards' keys; where one is newer than it was seen here, the write is
refused as overtaken.

A write is recognised in the watch by the version it replaced together with its stored bytes, for a delete its token.
(Two writers that replace one version by the same bytes both get success: both see the state they asked for.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Self

from tarmac.store.etcd._generated import etcd_subset_pb2 as pb
from tarmac.store.etcd.records import EtcdLayout
from tarmac.store.interface import Entry, Event, Exists, Missing, Overtaken, RevisionConflict, StoreError

NO_GUARDS: Mapping[bytes, int] = {}
_NO_REVISION = -1


class Intent:
    """A write in flight. `mark` identifies it in the watch; `landed` is set when the watch delivers it."""

    __slots__ = ("_fence_key", "_operations", "_seen", "bucket", "expected", "fence", "key", "landed", "mark", "name")

    def __init__(
        self,
        bucket: str,
        name: str,
        key: bytes,
        expected: int,
        mark: bytes,
        seen: Mapping[bytes, int],
        operations: Sequence[pb.RequestOp],
    ) -> None:
        self.bucket = bucket
        self.name = name
        self.key = key
        self.expected = expected  # 0: must not exist
        self.mark = mark
        self.landed: Entry | None = None
        self.fence: int | None = None  # mod revision that copies compare; None where there is no fence
        self._fence_key = b""
        self._seen, self._operations = seen, operations

    @property
    def request(self) -> pb.TxnRequest:
        """The transaction of one copy."""
        seen = self._seen if self.fence is None else {**self._seen, self._fence_key: self.fence}
        return _transaction(seen, self._operations)

    def behind(self, key: bytes, fence: int) -> Self:
        """Make copies compare the fence too."""
        self._fence_key, self.fence = key, fence
        return self

    def overtaken_by_fence(self, response: pb.TxnResponse) -> int:
        """Return the fence's mod revision if it has moved and the object does not exist, else 0."""
        if self.fence is None:
            return 0
        own, *_, (fence,) = [[kv.mod_revision for kv in each.response_range.kvs] or [0] for each in response.responses]
        return fence if own == [0] and fence != self.fence else 0

    def saw(self, event: Event, mark: bytes) -> None:
        """Check whether a change of this key, delivered by the watch, is this write."""
        replaced = event.previous.revision if event.previous is not None else 0
        if replaced == self.expected and mark == self.mark:
            self.landed = event.entry

    def refusal(self, response: pb.TxnResponse, records: EtcdLayout) -> tuple[StoreError, int]:
        """Return the reason why the comparison failed, and the revision at which readers see it too (0: not known)."""
        own, *guards = [each.response_range.kvs for each in response.responses[: len(self._seen)]]
        current = records.revision(own[0].mod_revision) if own else 0
        if current == self.expected:
            newest = max((records.revision(kv.mod_revision) for kvs in guards for kv in kvs), default=0)
            return Overtaken(f"{self.bucket}/{self.name}: another write under the same guard came first"), newest
        if not self.expected:
            return Exists(f"{self.bucket}/{self.name} exists"), current
        if not own:
            return Missing(f"{self.bucket}/{self.name} does not exist"), 0
        return RevisionConflict(current), current


def put(
    records: EtcdLayout, bucket: str, name: str, value: bytes, expected: int, guards: Mapping[bytes, int] = NO_GUARDS
) -> Intent:
    """Create (`expected` 0) or replace. `guards` are keys, each with its mod revision as seen here."""
    key = records.key(bucket, name)
    blob = records.seal(bucket, name, value)
    puts = [pb.RequestOp(request_put=pb.PutRequest(key=each)) for each in guards]
    puts.append(pb.RequestOp(request_put=pb.PutRequest(key=key, value=blob)))
    return Intent(bucket, name, key, expected, blob, {key: _compared(records, expected), **guards}, puts)


def remove(records: EtcdLayout, bucket: str, name: str, expected: int, value: bytes | None, token: bytes) -> Intent:
    """Delete, storing the token and the final state in the same transaction."""
    key = records.key(bucket, name)
    last = token + (records.seal(bucket, name, value) if value is not None else b"")
    operations = (
        pb.RequestOp(request_put=pb.PutRequest(key=records.last_delete, value=last)),
        pb.RequestOp(request_delete_range=pb.DeleteRangeRequest(key=key)),
    )
    return Intent(bucket, name, key, expected, token, {key: _compared(records, expected)}, operations)


def _compared(records: EtcdLayout, expected: int) -> int:
    """Return the mod revision to compare with.

    A revision from before the offset belongs to no key, and must not become etcd's 0 ("does not exist").
    """
    return max(records.mod_revision(expected), 0) or _NO_REVISION if expected else 0


def _transaction(seen: Mapping[bytes, int], operations: Sequence[pb.RequestOp]) -> pb.TxnRequest:
    """Run `operations` if every key is at the revision that was seen, else return each key's revision, in order."""
    unchanged = [
        pb.Compare(target=pb.Compare.MOD, result=pb.Compare.EQUAL, key=key, mod_revision=revision)
        for key, revision in seen.items()
    ]
    current = [pb.RequestOp(request_range=pb.RangeRequest(key=key, keys_only=True)) for key in seen]
    return pb.TxnRequest(compare=unchanged, success=operations, failure=current)
