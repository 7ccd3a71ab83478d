"""Server-side apply.

The configuration is merged into the live object; then fields that its manager applied last time, does not apply now and
no other manager owns are removed. Every changed field that another manager owns is a conflict, which fails the request
or, with `force`, moves the field to the applier. An applier owns every field it applies, even where it changes nothing.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import msgspec

from tarmac.api.decode.headers import stated_name
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.patch import conformity, entries, lastapplied, managed, resets
from tarmac.server.patch.conflicts import FieldConflict, conflict_error
from tarmac.server.patch.elements import BadElement
from tarmac.server.patch.entries import FieldManager, Managers, OwnedFields
from tarmac.server.patch.fieldset import FieldSet, canonical, intersection, members, union
from tarmac.server.patch.gotext import unclassified
from tarmac.server.patch.merging import merge, without_nulls
from tarmac.server.patch.ownership import applied as claimed
from tarmac.server.patch.pruning import prune
from tarmac.server.patch.shapes import Shape, empty_object, shape_of

_BEFORE_FIRST_APPLY = "before-first-apply"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


def server_side_apply(
    resource: Resource,
    live: JsonObject | None,
    applied: JsonObject,
    manager: str,
    *,
    force: bool,
    subresource: str,
    now: str,
) -> JsonObject:
    """Merge `applied` into `live` (None creates) on behalf of `manager`; return the new object, managedFields set.

    Raises BadRequest for a malformed configuration, Conflict for fields that other managers own. An apply that changes
    nothing returns an object equal to `live`.
    """
    _check(resource, applied)
    start = empty_object(resource.schema) if live is None else live
    managers = _managers(resource, start, subresource, now) if live is not None else {}
    try:
        work = _Apply(resource, start, applied, managers, entries.applier(manager, subresource))
    except BadElement as error:  # an update may store items without their keys; those cannot be merged
        raise unclassified(f"failed to create typed live object ({_place(start, resource)}): {error}") from None
    if not force:
        conflicts = work.conflicts()
        if manager == lastapplied.KUBECTL:
            conflicts = lastapplied.unexplained(resource, start, conflicts)
        if conflicts:
            raise conflict_error(conflicts)
    return work.result(now)


def _check(resource: Resource, applied: JsonObject) -> None:
    version, kind = (_text(applied, name) for name in ("apiVersion", "kind"))
    if (version, kind) != (resource.api_version, resource.kind):
        raise BadRequest(f"invalid object type: {_kind(version, kind)}")
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    try:
        conformity.check(resource.schema, applied)
    except conformity.Nonconforming as error:
        raise unclassified(f"failed to create typed patch object ({_place(applied, resource)}): {error}") from None
    except conformity.TooMany as found:
        errors = FieldErrors()
        errors.too_many(found.path, found.count, found.most)
        raise invalid(resource.group, resource.kind, stated_name(applied), errors) from None


def _place(obj: JsonObject, resource: Resource) -> str:
    metadata = obj.get("metadata")
    kind = _kind(resource.api_version, resource.kind)
    return f"{_text(metadata, 'namespace')}/{_text(metadata, 'name')}; {kind}"


def _kind(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def _text(value: Any, name: str) -> str:
    found = value.get(name) if isinstance(value, dict) else None
    return found if isinstance(found, str) else ""


def _managers(resource: Resource, live: JsonObject, subresource: str, now: str) -> Managers:
    """Return the managers of a live object. An untracked object gets one entry that owns all its fields."""
    managers = entries.stored(live["metadata"])
    if managers:
        return managers
    before = entries.updater(_BEFORE_FIRST_APPLY, resource.api_version, subresource)
    return managed.updated(resource, empty_object(resource.schema), live, {}, before, now)


class _Apply:
    """One apply: computes the merged object, its conflicts, and the new managers."""

    def __init__(
        self, resource: Resource, live: JsonObject, applied: JsonObject, managers: Managers, mine: FieldManager
    ) -> None:
        self.resource = resource
        self.shape = shape_of(resource.schema)
        self.live = live
        self.applied = applied
        self.mine = mine
        claim = resets.rule(resource, mine.subresource)(claimed(self.shape, applied))
        self.last = managers.get(mine)
        time = self.last.time if self.last else None
        self.managers = {**managers, mine: OwnedFields(claim, resource.api_version, time)}
        self.merged = self._merged(managed.claimable(claim))
        self.comparison = managed.changes(resource, live, self.merged, mine.subresource)

    def _merged(self, claim: FieldSet) -> JsonObject:
        merged = merge(self.shape, self.live, self.applied)
        if self.last is None or self.last.version != self.resource.api_version or self.last.fields == claim:
            return merged
        return prune(self.shape, merged, self.last.fields, self._owned())

    def _owned(self) -> FieldSet:
        claims = (claim for claim in self.managers.values() if claim.version == self.resource.api_version)
        return reduce(union, (claim.fields for claim in claims), {})

    def conflicts(self) -> list[FieldConflict]:
        """Return the fields that this apply changes and other managers own."""
        return [
            FieldConflict(manager, path)
            for manager, claim in self.managers.items()
            if manager != self.mine and claim.version == self.resource.api_version
            for path in members(canonical(intersection(claim.fields, self.comparison.changed)))
        ]

    def result(self, now: str) -> JsonObject:
        """Return the new object. Other managers lose the fields that this apply changed."""
        result = _unshared(self.shape, self.merged)
        metadata: JsonObject = result.setdefault("metadata", {})
        metadata.pop("managedFields", None)
        managers = self._final_managers(now)
        if managers:
            metadata["managedFields"] = entries.encode(managers)
        if self.mine.name == lastapplied.KUBECTL:
            lastapplied.refresh(metadata, self.applied)
        return result

    def _final_managers(self, now: str) -> Managers:
        managers = managed.displaced(self.resource, self.managers, self.comparison, keep=self.mine)
        mine = managers.pop(self.mine, None)
        fields = managed.claimable(mine.fields) if mine else {}
        if mine and fields:
            # An apply that changes nothing still makes its manager an owner, but must not touch the entry's time.
            time = mine.time if self.merged == self.live else now
            managers[self.mine] = mine._replace(fields=fields, time=time)
        return managers


def _unshared(shape: Shape, merged: JsonObject) -> JsonObject:
    """Return a copy of the merged object that the caller may modify: it shares no part with the live object."""
    text = _encode(merged)
    result = _decode(text)
    return without_nulls(shape, result) if b":null" in text else result
