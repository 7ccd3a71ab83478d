"""Usage of each quota, updated from the store's events.

A quota's visible usage is computed once, when the quota is first seen, and then follows the events of the counted
resources. Usage by pending writes is computed on demand from the store's pending events, so a write that fails later,
or a dry run, leaves no trace. Two creates that race for the last place therefore cannot both succeed; if several
servers share the store, its guards ensure that.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from tarmac.api.kubernetes.core.quotas import CLASS_LISTS
from tarmac.api.kubernetes.resourcenames import ZERO, quantity
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.base.quantity import Quantity
from tarmac.server.admission.quota.charges import PODS, buckets_of, charges, matches
from tarmac.server.admission.quota.classcharges import limits_of
from tarmac.server.reader import Reader, decode
from tarmac.store.interface import Entry, Event

BUCKET = "core/resourcequotas"


class TrackedQuota:
    """One ResourceQuota with its visible usage. Without `class_resources` it does not count classes."""

    __slots__ = ("amounts", "buckets", "counted", "hard", "name", "namespace", "spec", "used")

    def __init__(self, obj: JsonObject, *, class_resources: bool = False) -> None:
        self.namespace: str = obj["metadata"]["namespace"]
        self.name: str = obj["metadata"]["name"]
        self.spec: JsonObject = obj.get("spec") or {}
        self.amounts: ResourceList = {name: quantity(text) for name, text in (self.spec.get("hard") or {}).items()}
        classes = dict(limits_of(self.spec)) if class_resources else {}
        self.hard = self.amounts | {name: limit for name, limit in classes.items() if limit is not None}
        self.used: ResourceList = dict.fromkeys((*self.amounts, *classes), ZERO)
        self.buckets = buckets_of(self.amounts)
        if class_resources and any(self.spec.get(field) for field in CLASS_LISTS):
            self.buckets.add(PODS)  # a quota that lists a type without classes forbids all of them
        self.counted = 0  # the revision of the initial count

    def cost(self, bucket: str, obj: JsonObject | None) -> ResourceList:
        """Return the object's charges in this quota; empty if it is not counted."""
        if obj is None or not matches(self.spec, bucket, obj):
            return {}
        return {name: amount for name, amount in charges(bucket, obj).items() if name in self.used}


class QuotaLedger:
    """All quotas by namespace. `changed` is called if a quota's usage or limits changed."""

    def __init__(
        self, reader: Reader, changed: Callable[[TrackedQuota], None], *, class_resources: bool = False
    ) -> None:
        self._reader = reader
        self._class_resources = class_resources
        self._changed = changed
        self._quotas: dict[str, dict[str, TrackedQuota]] = {}
        self._watched: set[str] = set()
        self._loaded = False

    def quotas(self, namespace: str) -> list[TrackedQuota]:
        """Return the namespace's quotas, sorted by name."""
        self._load()
        found = self._quotas.get(namespace)
        return [found[name] for name in sorted(found)] if found else []

    def used(self, quota: TrackedQuota) -> ResourceList:
        """Return the visible usage plus that of pending writes."""
        total, store, here = dict(quota.used), self._reader.store, f"{quota.namespace}/"
        for event in store.pending():
            bucket, name = event.bucket, event.entry.name
            if bucket in quota.buckets and name.startswith(here):
                # The store names each key once, with its newest pending change: adding all of them would charge an
                # object twice.
                _add(total, quota.cost(bucket, _object(_left_by(event))), 1)
                # The visible version is in `used` already, and the pending one replaces it.
                _add(total, quota.cost(bucket, _object(store.get(bucket, name))), -1)
        return total

    def _load(self) -> None:
        if not self._loaded:
            self._loaded = True
            # Before the list and in the same turn: a quota that is created later reaches the subscription.
            self._reader.store.subscribe(BUCKET, self._quotas_changed)
            for obj in self._reader.list(BUCKET):
                self._put(obj)

    def _quotas_changed(self, events: Sequence[Event]) -> None:
        for event in events:
            namespace, _, name = event.entry.name.partition("/")
            if event.type == "DELETED":
                self._quotas.get(namespace, {}).pop(name, None)
            else:
                self._put(decode(event.entry))

    def _put(self, obj: JsonObject) -> None:
        metadata = obj["metadata"]
        known = self._quotas.setdefault(metadata["namespace"], {}).get(metadata["name"])
        if known is not None and known.spec == (obj.get("spec") or {}):
            self._changed(known)  # only the status changed, perhaps by a different writer
            return
        quota = TrackedQuota(obj, class_resources=self._class_resources)
        for bucket in quota.buckets:
            # Before the count below: an object that becomes visible after it reaches `_objects_changed`.
            self._watch(bucket)
            for entry in self._reader.store.list(bucket, f"{quota.namespace}/").entries:
                _add(quota.used, quota.cost(bucket, decode(entry)), 1)
        # After the count, in the same turn of the loop: events up to this revision are part of it.
        quota.counted = self._reader.store.revision
        self._quotas[quota.namespace][quota.name] = quota
        self._changed(quota)

    def _watch(self, bucket: str) -> None:
        if bucket not in self._watched:
            self._watched.add(bucket)
            self._reader.store.subscribe(bucket, self._objects_changed)

    def _objects_changed(self, events: Sequence[Event]) -> None:
        for event in events:
            namespace = event.entry.name.partition("/")[0]
            for quota in self._quotas.get(namespace, {}).values():
                # A batch becomes visible as a whole, and then its events arrive per kind. So events of objects that a
                # new quota has already counted (the quota itself included, if it counts quotas) may arrive after it:
                # skip them.
                if event.bucket in quota.buckets and event.entry.revision > quota.counted:
                    self._follow(quota, event)

    def _follow(self, quota: TrackedQuota, event: Event) -> None:
        before, after = (quota.cost(event.bucket, _object(entry)) for entry in (event.previous, _left_by(event)))
        if before != after:
            _add(quota.used, before, -1)
            _add(quota.used, after, 1)
            self._changed(quota)


def _left_by(event: Event) -> Entry | None:
    return None if event.type == "DELETED" else event.entry


def _object(entry: Entry | None) -> JsonObject | None:
    return None if entry is None else decode(entry)


def _add(total: ResourceList, amounts: ResourceList, sign: int) -> None:
    for name, amount in amounts.items():
        total[name] = total.get(name, ZERO) + amount * sign


def exceeded(used: ResourceList, delta: ResourceList, hard: ResourceList) -> Iterator[tuple[str, Quantity]]:
    """Yield the names of `delta` that exceed the limits, with the requested amounts."""
    for name, amount in delta.items():
        if amount > ZERO and name in hard and used.get(name, ZERO) + amount > hard[name]:
            yield name, amount
