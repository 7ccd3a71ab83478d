"""ResourceQuota plugin: rejects writes above the limits, and keeps `status.used` of every quota current.

Usage is checked last in the chain, right before the write, against all accepted writes. Counted writes are made under
the guard of their namespace, so that no write of a different server comes in between. Instances are admitted: they wait
behind a scheduling gate until the quota has room.

The server itself writes the status, once per quota and batch of changes, usually within that batch; a counted write is
acknowledged once the status that includes it is visible too. Any other change of a quota's status is reverted as soon
as it is seen.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable
from functools import partial

from tarmac.api.kubernetes.core.quotas import CLASS_LISTS
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.api.status import QUOTA_EXCEEDED
from tarmac.base.log import log
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.quota.charges import CLAIMS, INSTANCES, PODS, SERVICES, matches, unspecified
from tarmac.server.admission.quota.classcharges import forbidden_class, shown, shown_name, usage
from tarmac.server.admission.quota.ledger import BUCKET, QuotaLedger, TrackedQuota, exceeded
from tarmac.server.admission.refusal import RefusalCause, refuse
from tarmac.server.encoding import encode_object
from tarmac.server.reader import Reader, decode
from tarmac.store.interface import Entry, Missing, RevisionConflict, StoreError

_UNCOUNTED = frozenset({"core/events", "core/bindings", "core/resourcequotas/status"})
_UPDATES = frozenset({(PODS, "resize"), (SERVICES, ""), (CLAIMS, ""), (BUCKET, ""), (BUCKET, "status")})

_MAX_ATTEMPTS = 5  # attempts to write a contended status before a counted write is acknowledged without it

_log = log("quota")


class ResourceQuotas(AdmissionPlugin):
    """Checks creates, and updates that can increase usage."""

    name = "ResourceQuota"

    def __init__(self, reader: Reader, quota_resource: Resource, *, class_resources: bool = False) -> None:
        """`class_resources`: the feature gate. Without it, quotas for classes are not enforced."""
        self._reader = reader
        self._class_resources = class_resources
        self._resource = quota_resource
        self._dirty: dict[str, TrackedQuota] = {}
        self._writing: dict[str, Future[Entry]] = {}  # the newest pending write of each status
        self._ledger = QuotaLedger(reader, self._changed, class_resources=class_resources)

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        if not resource.namespaced or not resource.stored or resource.bucket in _UNCOUNTED:
            return False
        if operation == "UPDATE":
            return (resource.bucket, subresource) in _UPDATES
        return operation == "CREATE" and subresource == "" and resource.bucket != INSTANCES

    def guard(self, resource: Resource, namespace: str) -> str | None:
        counted = self._reader.store.shared and self._counting(resource.bucket, namespace)
        return f"quota/{namespace}" if counted else None

    def validate(self, attributes: Attributes) -> None:
        bucket, obj = attributes.resource.bucket, attributes.obj
        if obj is None:
            return
        for quota in self._counting(bucket, attributes.namespace):
            self._check(attributes, quota, bucket, obj)

    def settling(self, namespace: str) -> Awaitable[None] | None:
        return self._settle(f"{namespace}/") if self._dirty or self._writing else None

    async def _settle(self, here: str) -> None:
        for _ in range(_MAX_ATTEMPTS):
            if any(key.startswith(here) for key in self._dirty):
                self._write_statuses()
            writing = [future for key, future in self._writing.items() if key.startswith(here)]
            if not writing:
                return
            # A cancelled caller leaves the writes running: they serve every other caller, too.
            done, _ = await asyncio.wait(writing)
            # A write that lost a race is followed by the winner's event, which has marked the quota dirty again.
            if not any(future.cancelled() or future.exception() for future in done):
                return

    def _counting(self, bucket: str, namespace: str) -> list[TrackedQuota]:
        """Return the namespace's quotas that count such objects."""
        return [quota for quota in self._ledger.quotas(namespace) if bucket in quota.buckets]

    def _check(self, attributes: Attributes, quota: TrackedQuota, bucket: str, obj: JsonObject) -> None:
        if not matches(quota.spec, bucket, obj):
            return
        if bucket == PODS and attributes.operation == "CREATE" and (missing := unspecified(quota.hard, obj)):
            raise refuse(attributes, f"failed quota: {quota.name}: {missing}")
        if bucket == PODS and self._class_resources and (why := forbidden_class(quota.spec, obj, attributes.old)):
            raise refuse(attributes, f"failed quota: {quota.name}: {why}", [RefusalCause(QUOTA_EXCEEDED, why, "")])
        cost = quota.cost(bucket, obj)
        before = quota.cost(bucket, attributes.old)
        delta = {name: amount - before[name] if name in before else amount for name, amount in cost.items()}
        used = self._ledger.used(quota)
        # Counted with pending writes: two creates in one batch would each fit alone.
        over = dict(exceeded(used, delta, quota.hard))
        if over:
            raise refuse(
                attributes,
                f"exceeded quota: {quota.name}, requested: {_show(over, over)}, used: {_show(used, over)}, "
                f"limited: {_show(quota.hard, over)}",
            )
        if delta and not attributes.dry_run:
            self._changed(quota)  # processed once the write is accepted, so that the status goes into the same batch

    def _changed(self, quota: TrackedQuota) -> None:
        if not self._dirty:
            # Later in this iteration: by then the store has accepted the write that is being admitted, and status and
            # write get into one batch of the log.
            asyncio.get_running_loop().call_soon(self._write_statuses)
        self._dirty[f"{quota.namespace}/{quota.name}"] = quota

    def _write_statuses(self) -> None:
        # Emptied first: a quota that is marked again while statuses are written belongs to the next round.
        dirty, self._dirty = self._dirty, {}
        for key, quota in dirty.items():
            entry = self._reader.store.head(BUCKET, key)
            if entry is None:
                continue
            obj, used = decode(entry), self._ledger.used(quota)
            classes = self._classes(quota, used, obj.get("status") or {})
            status = {
                "hard": {name: str(amount) for name, amount in quota.amounts.items()} | shown(classes, "capacity"),
                "used": {name: str(used[name]) for name in quota.amounts} | shown(classes, "used"),
                **classes,
            }
            if obj.get("status") != status:
                obj["status"] = status
                self._write(key, obj, entry)

    def _classes(self, quota: TrackedQuota, used: ResourceList, before: JsonObject) -> JsonObject:
        """Return the class lists of the status. With the feature gate off, keep the stored ones."""
        if self._class_resources:
            return usage(quota.spec, used)
        return {field: before[field] for field in CLASS_LISTS if field in before}

    def _write(self, key: str, obj: JsonObject, entry: Entry) -> None:
        try:
            # Not awaited: `_written` reports failures. After a kill, the ledger counts anew on its first use and
            # corrects the status.
            future = self._reader.store.update(BUCKET, key, encode_object(obj, self._resource), entry.revision)
        except (RevisionConflict, Missing):
            return  # the conflicting write causes an event, which marks the quota dirty again
        # The newest only: `_settle` waits for it, and the store keeps the order of writes.
        self._writing[key] = future
        future.add_done_callback(partial(self._written, key))

    def _written(self, key: str, future: Future[Entry]) -> None:
        # A later write of the same status has taken its place, and is still awaited.
        if self._writing.get(key) is future:
            del self._writing[key]
        _report(future)


def _report(future: Future[Entry]) -> None:
    error = None if future.cancelled() else future.exception()
    if error is not None and not isinstance(error, (RevisionConflict, Missing)):
        _log.warning("quota status write failed", error=str(error), retriable=isinstance(error, StoreError))


def _show(amounts: ResourceList, names: ResourceList) -> str:
    return ",".join(f"{shown_name(name)}={amounts[name]}" for name in sorted(names) if name in amounts)
