"""Bookkeeping of managedFields for every write that is not an apply.

A write makes its manager the owner of the fields it changed; all other managers lose the fields that it removed or
changed. Call `for_update` where Kubernetes does: after decoding and defaulting, before admission and before the
strategy prepares the object, so that fields the server sets afterwards have no owner. A write that changes nothing
keeps every entry as it was. If the server then drops a write's changes, only the time of an entry may differ, and the
object need not be stored.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject, Schema
from tarmac.server.patch import entries, resets
from tarmac.server.patch.comparing import Comparison, compare
from tarmac.server.patch.entries import UPDATE, FieldManager, Managers, OwnedFields
from tarmac.server.patch.fieldset import SELF, FieldSet, canonical, covers, difference, union
from tarmac.server.patch.shapes import empty_object, shape_of

UNTRACKED: list[JsonObject] = [{}]
# kube-apiserver's DefaultMaxUpdateManagers; appliers are never merged.
_MAX_UPDATERS = 10
_ANCIENT = "ancient-changes"

# Fields that identify an object or belong to the server never have an owner.
_TYPE = frozenset({"f:apiVersion", "f:kind"})
_IDENTITY = frozenset(
    {
        SELF,
        "f:clusterName",
        "f:creationTimestamp",
        "f:generation",
        "f:managedFields",
        "f:name",
        "f:namespace",
        "f:resourceVersion",
        "f:selfLink",
        "f:uid",
    }
)
_TYPE_FIELDS = frozenset(element.removeprefix("f:") for element in _TYPE)
_IDENTITY_FIELDS = frozenset(element.removeprefix("f:") for element in _IDENTITY)


def for_update(
    resource: Resource, old: JsonObject | None, new: JsonObject, manager: str, subresource: str, now: str
) -> None:
    """Set `new["metadata"]["managedFields"]` for a create (`old` is None), update or patch. Changes `new` in place.

    A create with `[{}]` makes an object without tracking of fields. An update with `[{}]` removes all managers.
    `manager` is the fieldManager parameter or the name from the User-Agent; `now` is RFC 3339 to the second.
    """
    metadata: JsonObject = new["metadata"]
    sent = metadata.pop("managedFields", None)
    # A subresource cannot change the managers by sending managedFields.
    managers = _managers(resource, old, None if subresource else sent)
    if old is None and not managers and sent != UNTRACKED:
        taken = _of_new(resource, new, subresource)
        if taken:
            mine = entries.updater(manager, resource.api_version, subresource)
            managers = {mine: OwnedFields(taken, resource.api_version, now)}
    # An untracked object stays untracked until the first apply.
    elif managers:
        mine = entries.updater(manager, resource.api_version, subresource)
        managers = updated(resource, old or _nothing(resource.schema), new, managers, mine, now)
    if managers:
        metadata["managedFields"] = entries.encode(managers)


def updated(
    resource: Resource, old: JsonObject, new: JsonObject, managers: Managers, mine: FieldManager, now: str
) -> Managers:
    """Return the managers after `mine` has turned `old` into `new`."""
    usual = not any(_claims_identity(claim.fields) for claim in managers.values())
    if usual:
        comparison = _compared(resource, _claimable_part(old), _claimable_part(new), mine.subresource)
    else:
        comparison = changes(resource, old, new, mine.subresource)
    before = managers.get(mine)
    # Fast path for by far the most frequent update: a manager changes only fields it owns already, so its set stays.
    same = usual and before is not None and not comparison.removed and covers(before.fields, comparison.changed)
    managers = displaced(resource, managers, comparison, keep=mine if same else None)
    taken = claimable(comparison.changed)
    if not taken:
        return managers
    if mine in managers:
        taken = managers[mine].fields if same else canonical(union(managers[mine].fields, taken))
    managers[mine] = OwnedFields(taken, resource.api_version, now)
    return _capped(managers)


def _of_new(resource: Resource, new: JsonObject, subresource: str) -> FieldSet:
    """Return the fields that the creator of an object owns when there are no other managers, the most frequent case.

    Same result as `updated`. Without managers to displace, the fields that `claimable` removes need not be compared.
    """
    return _compared(resource, _nothing(resource.schema), _claimable_part(new), subresource).changed


@cache
def _nothing(schema: Schema) -> JsonObject:
    # One object for all creates, since it is cached: comparisons may read it, and must not change it.
    return {"metadata": {}} | empty_object(schema)


def changes(resource: Resource, old: JsonObject, new: JsonObject, subresource: str) -> Comparison:
    """Return the difference that a write to a resource or subresource made, without fields it cannot change."""
    return _compared(resource, _tracked(old), _tracked(new), subresource)


def _compared(resource: Resource, old: JsonObject, new: JsonObject, subresource: str) -> Comparison:
    comparison = compare(shape_of(resource.schema), old, new)
    rule = resets.rule(resource, subresource)
    return Comparison(rule(comparison.changed), rule(comparison.removed))


def _tracked(obj: JsonObject) -> JsonObject:
    metadata = obj.get("metadata")
    if not metadata or "managedFields" not in metadata:
        return obj
    return {**obj, "metadata": {name: value for name, value in metadata.items() if name != "managedFields"}}


def claimable(fields: FieldSet) -> FieldSet:
    """Return a set without the fields that never have an owner."""
    kept = {element: node for element, node in fields.items() if element not in _TYPE}
    metadata = kept.get("f:metadata")
    if metadata is not None:
        kept["f:metadata"] = {element: node for element, node in metadata.items() if element not in _IDENTITY}
        if not kept["f:metadata"]:
            del kept["f:metadata"]
    return kept


def _claimable_part(obj: JsonObject) -> JsonObject:
    """Return an object without the fields that never have an owner."""
    part = {name: value for name, value in obj.items() if name not in _TYPE_FIELDS}
    metadata = obj.get("metadata")
    if metadata:
        part["metadata"] = {name: value for name, value in metadata.items() if name not in _IDENTITY_FIELDS}
    return part


def _claims_identity(fields: FieldSet) -> bool:
    """Return whether managedFields sent by a client assign a field that never has an owner."""
    return not _TYPE.isdisjoint(fields) or not _IDENTITY.isdisjoint(fields.get("f:metadata") or ())


def displaced(
    resource: Resource, managers: Managers, comparison: Comparison, keep: FieldManager | None = None
) -> Managers:
    """Return the managers without the fields that a change took from them.

    Managers left without fields, or of a version that is not served, are dropped.
    """
    if not managers:
        return {}
    lost = union(comparison.changed, comparison.removed)
    left: Managers = {}
    for manager, claim in managers.items():
        if claim.version != resource.api_version:
            continue
        fields = claim.fields if manager == keep else difference(claim.fields, lost)
        if fields:
            left[manager] = claim if fields is claim.fields else claim._replace(fields=fields)
    return left


def _managers(resource: Resource, old: JsonObject | None, sent: Any) -> Managers:
    """Return the initial managers: those the client sent, if valid, else those of the stored object."""
    if sent == UNTRACKED or (sent == [] and resource.native):
        return {}  # the client asks to remove all managers
    live = entries.stored(old["metadata"]) if old is not None else {}
    if not sent or (old is not None and sent == old["metadata"].get("managedFields")):
        return live
    try:
        # kube-apiserver, too, ignores managedFields that it cannot decode: the write itself does not fail.
        return entries.decode(sent) or live
    except entries.BadManagedFields:
        return live


def _capped(managers: Managers) -> Managers:
    """Merge the oldest updates of each version into one until no more than the limit are left."""
    updaters = [manager for manager in managers if manager.operation == UPDATE]
    excess = len(updaters) - _MAX_UPDATERS
    if excess <= 0:
        return managers
    updaters.sort(key=lambda manager: (managers[manager].time or "", manager))
    first: dict[str, FieldManager] = {}
    for manager in updaters:
        if excess <= 0:
            break
        version = managers[manager].version
        if version in first:
            _merge_into_ancient(managers, first[version], manager)
            excess -= 1
        else:
            first[version] = manager
    return managers


def _merge_into_ancient(managers: Managers, first: FieldManager, manager: FieldManager) -> None:
    claim = managers.pop(manager)
    ancient = FieldManager(_ANCIENT, UPDATE, claim.version)
    older = managers.pop(ancient, None) or managers.pop(first)
    managers[ancient] = claim._replace(fields=canonical(union(claim.fields, older.fields)))
