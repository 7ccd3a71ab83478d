"""Server-side apply.

The configuration is merged into the live object; then fields that its manager applied last time, does not apply now and
no other manager owns are removed. Every changed field that another manager owns is a conflict, which fails the request
or, with `force`, moves the field to the applier. An applier owns every field it applies, even where it changes nothing.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import msgspec

from tarmac.api.decode.typemeta import stated_name
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.shared import LAST_APPLIED
from tarmac.api.status import BadRequest, invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.patch import conformity, entries, managed, resets
from tarmac.server.patch.comparing import compare
from tarmac.server.patch.conflicts import FieldConflict, conflict_error
from tarmac.server.patch.elements import BadElement, encode_value
from tarmac.server.patch.entries import FieldManager, Managers, OwnedFields
from tarmac.server.patch.fieldset import FieldSet, canonical, difference, has, intersection, members, union
from tarmac.server.patch.gotext import unclassified
from tarmac.server.patch.merging import merge, without_nulls
from tarmac.server.patch.ownership import applied
from tarmac.server.patch.ownership import applied as claimed
from tarmac.server.patch.pruning import prune
from tarmac.server.patch.shapes import Shape, empty_object, shape_of

_BEFORE_FIRST_APPLY = "before-first-apply"

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode

KUBECTL = "kubectl"
_MAX_ANNOTATIONS = 256 * 1024


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
    # Before the merge, which relies on it: types as declared, and keys of list items that are unique.
    _check(resource, applied)
    start = empty_object(resource.schema) if live is None else live
    managers = _managers(resource, start, subresource, now) if live is not None else {}
    try:
        work = _Apply(resource, start, applied, managers, entries.applier(manager, subresource))
    except BadElement as error:  # an update may store items without their keys; those cannot be merged
        raise unclassified(f"failed to create typed live object ({_place(start, resource)}): {error}") from None
    if not force:
        conflicts = work.conflicts()
        if manager == KUBECTL:
            conflicts = unexplained(resource, start, conflicts)
        if conflicts:
            raise conflict_error(conflicts)
    return work.result(now)


def _check(resource: Resource, applied: JsonObject) -> None:
    version, kind = (_text(applied, name) for name in ("apiVersion", "kind"))
    if (version, kind) != (resource.api_version, resource.kind):
        raise BadRequest(f"invalid object type: {_kind(version, kind)}")
    metadata = applied.get("metadata")
    # A client could otherwise claim fields of other managers without a conflict.
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
        if self.mine.name == KUBECTL:
            refresh(metadata, self.applied)
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


# Migration of kubectl from client-side to server-side apply.
#
# Client-side apply stored the last configuration in an annotation. When manager "kubectl" conflicts only over fields
# that this configuration set to the values they still have, it takes them over; and while the annotation exists,
# kubectl's server-side applies refresh it, so that an older kubectl can still return to client-side apply.


def unexplained(resource: Resource, live: JsonObject, conflicts: list[FieldConflict]) -> list[FieldConflict]:
    """Return the conflicts that client-side apply does not explain."""
    if not conflicts:
        return conflicts  # a new object has no conflicts, and no metadata to read below
    own = _still_as_applied(resource, live)
    return [taken for taken in conflicts if not has(own, taken.path)]


def _still_as_applied(resource: Resource, live: JsonObject) -> FieldSet:
    """Return the fields of the last client-side configuration that have not changed since."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return {}
    try:
        config = _decode(text)
        conformity.check(resource.schema, config)
    # Clients write the annotation: text that does not decode, or does not fit the schema, explains no conflict.
    except (msgspec.DecodeError, conformity.Nonconforming):
        return {}
    if not isinstance(config, dict) or config.get("apiVersion") != resource.api_version:
        return {}
    shape = shape_of(resource.schema)
    comparison = compare(shape, config, live)
    return difference(difference(applied(shape, config), comparison.changed), comparison.removed)


def refresh(metadata: JsonObject, config: JsonObject) -> None:
    """Update the annotation, if there is one. Changes `metadata` in place."""
    annotations = metadata.get("annotations")
    if not annotations or not annotations.get(LAST_APPLIED):
        return
    annotations[LAST_APPLIED] = encode_value(_without_annotation(config)) + "\n"
    if sum(len(name.encode()) + len((value or "").encode()) for name, value in annotations.items()) > _MAX_ANNOTATIONS:
        # Above this size validation would reject the object. Without the annotation only the way back to client-side
        # apply is lost.
        del annotations[LAST_APPLIED]


def _without_annotation(config: JsonObject) -> JsonObject:
    metadata = config.get("metadata") or {}
    given = metadata.get("annotations") or {}
    if LAST_APPLIED not in given:
        return config
    rest = {name: value for name, value in given.items() if name != LAST_APPLIED}
    return {**config, "metadata": {**metadata, "annotations": rest}}
