"""Server-side apply.

The configuration is merged into the live object; then whatever its manager applied last time, does not apply now and
nobody else owns is removed again. Every field that this changes and another manager owns is a conflict, which fails the
request or, with `force`, moves the field to the applier. An applier owns what it applies even where it changes nothing.

kubectl's move from client-side apply: when manager "kubectl" conflicts only over fields that its last-applied
annotation set to the values they still have, it takes them over; and while that annotation is there, kubectl's applies
refresh it.
"""

from __future__ import annotations

from functools import reduce
from typing import Any

import msgspec

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, Conflict
from tarmac.server.patch import conformity, entries, managed, resets
from tarmac.server.patch.elements import display, encode_value
from tarmac.server.patch.entries import Claim, Manager, Managers
from tarmac.server.patch.fieldset import (
    FieldSet,
    canonical,
    difference,
    has,
    intersection,
    members,
    union,
)
from tarmac.server.patch.gotext import unclassified
from tarmac.server.patch.merging import merge, without_nulls
from tarmac.server.patch.ownership import applied as claimed
from tarmac.server.patch.ownership import compare
from tarmac.server.patch.pruning import prune
from tarmac.server.patch.shapes import Shape, empty_object, shape_of

LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
_BEFORE_FIRST_APPLY = "before-first-apply"
_KUBECTL = "kubectl"
_MAX_ANNOTATIONS = 256 * 1024

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class _Conflicts(Exception):
    """Fields that an apply would take from other managers."""

    def __init__(self, fields: list[tuple[Manager, tuple[str, ...]]]) -> None:
        super().__init__("conflicts")
        self.fields = fields


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
    """Merge `applied` into `live` (None creates) on behalf of `manager`; returns the new object, managedFields set.

    Raises BadRequest for a configuration that is not one, Conflict for fields that others own. An apply that changes
    nothing gives back an object equal to `live`.
    """
    _check(resource, applied)
    start = empty_object(resource.schema) if live is None else live
    managers = _managers(resource, start, subresource, now) if live is not None else {}
    mine = entries.applier(manager, subresource)
    work = _Apply(resource, start, applied, managers, mine)
    try:
        return work.run(force, now)
    except _Conflicts as conflicts:
        remaining = _without_last_applied(resource, start, conflicts) if manager == _KUBECTL else conflicts.fields
        if remaining:
            raise _conflict_error(remaining) from None
    return work.run(True, now)


def _check(resource: Resource, applied: JsonObject) -> None:
    version, kind = applied.get("apiVersion", ""), applied.get("kind", "")
    if (version, kind) != (resource.api_version, resource.kind):
        raise BadRequest(f"invalid object type: {_kind(version, kind)}")
    metadata = applied.get("metadata")
    if isinstance(metadata, dict) and metadata.get("managedFields") is not None:
        raise BadRequest("metadata.managedFields must be nil")
    try:
        conformity.check(resource.schema, applied)
    except conformity.Nonconforming as error:
        name, namespace = _names(applied)
        kind = _kind(resource.api_version, resource.kind)
        raise unclassified(f"failed to create typed patch object ({namespace}/{name}; {kind}): {error}") from None


def _kind(api_version: str, kind: str) -> str:
    group, _, version = api_version.rpartition("/")
    return f"{group}/{version}, Kind={kind}"


def _names(applied: JsonObject) -> tuple[str, str]:
    metadata = applied.get("metadata")
    names: dict[str, Any] = metadata if isinstance(metadata, dict) else {}
    return names.get("name", ""), names.get("namespace", "")


def _managers(resource: Resource, live: JsonObject, subresource: str, now: str) -> Managers:
    """The managers of a live object; one that nobody tracked so far is as if its fields came from one update."""
    managers = entries.stored(live["metadata"])
    if managers:
        return managers
    before = entries.updater(_BEFORE_FIRST_APPLY, resource.api_version, subresource)
    return managed.updated(resource, empty_object(resource.schema), live, {}, before, now)


class _Apply:
    """One apply, which may have to be run twice: without force, then with."""

    def __init__(
        self, resource: Resource, live: JsonObject, applied: JsonObject, managers: Managers, mine: Manager
    ) -> None:
        self.resource = resource
        self.shape = shape_of(resource.schema)
        self.live = live
        self.applied = applied
        self.managers = managers
        self.mine = mine

    def run(self, force: bool, now: str) -> JsonObject:
        """The new object. Raises _Conflicts unless forced."""
        rule = resets.rule(self.resource, self.mine.subresource)
        claim = rule(claimed(self.shape, self.applied))
        last = self.managers.get(self.mine)
        managers = {**self.managers, self.mine: Claim(claim, self.resource.api_version, last.time if last else None)}
        merged = merge(self.shape, self.live, self.applied)
        if last is not None and last.version == self.resource.api_version and last.fields != managed.claimable(claim):
            merged = prune(self.shape, merged, last.fields, self._owned(managers))
        comparison = managed.changes(self.resource, self.live, merged, self.mine.subresource)
        if not force:
            self._check_conflicts(comparison.changed)
        managers = managed.displaced(self.resource, managers, comparison, keep=self.mine)
        return self._finished(merged, managers, now)

    def _owned(self, managers: Managers) -> FieldSet:
        claims = (claim for claim in managers.values() if claim.version == self.resource.api_version)
        return reduce(union, (claim.fields for claim in claims), {})

    def _check_conflicts(self, changed: FieldSet) -> None:
        conflicts = [
            (manager, path)
            for manager, claim in self.managers.items()
            if manager != self.mine and claim.version == self.resource.api_version
            for path in members(canonical(intersection(claim.fields, changed)))
        ]
        if conflicts:
            raise _Conflicts(conflicts)

    def _finished(self, merged: JsonObject, managers: Managers, now: str) -> JsonObject:
        mine = managers.pop(self.mine, None)
        fields = managed.claimable(mine.fields) if mine else {}
        if mine and fields:
            time = mine.time if merged == self.live else now
            managers[self.mine] = mine._replace(fields=fields, time=time)
        result = _unshared(self.shape, merged)
        metadata: JsonObject = result.setdefault("metadata", {})
        metadata.pop("managedFields", None)
        if managers:
            metadata["managedFields"] = entries.encode(managers)
        if self.mine.name == _KUBECTL:
            _refresh_last_applied(metadata, self.applied)
        return result


def _unshared(shape: Shape, merged: JsonObject) -> JsonObject:
    """The merged object as the caller may change it: nothing of it is also in the live object."""
    text = _encode(merged)
    result = _decode(text)
    return without_nulls(shape, result) if b":null" in text else result


def _conflict_error(conflicts: list[tuple[Manager, tuple[str, ...]]]) -> Conflict:
    paths = [(manager, "".join(display(element) for element in path)) for manager, path in conflicts]
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {manager}", "field": path}
        for manager, path in paths
    ]
    if len(paths) == 1:
        manager, path = paths[0]
        message = f"Apply failed with 1 conflict: conflict with {manager}: {path}"
    else:
        lines: list[str] = []
        for manager in sorted({manager for manager, _ in paths}):
            lines.append(f"conflicts with {manager}:")
            lines.extend(f"- {path}" for other, path in paths if other == manager)
        message = f"Apply failed with {len(paths)} conflicts: " + "\n".join(lines)
    return Conflict(message, details={"causes": causes})


def _without_last_applied(
    resource: Resource, live: JsonObject, conflicts: _Conflicts
) -> list[tuple[Manager, tuple[str, ...]]]:
    """The conflicts that client-side apply does not explain."""
    text = (live["metadata"].get("annotations") or {}).get(LAST_APPLIED)
    if not text:
        return conflicts.fields
    try:
        config = _decode(text)
        if config.get("apiVersion") != resource.api_version:
            return conflicts.fields
        conformity.check(resource.schema, config)
    except (msgspec.DecodeError, AttributeError, conformity.Nonconforming):
        return conflicts.fields
    shape = shape_of(resource.schema)
    comparison = compare(shape, config, live)
    own = difference(difference(claimed(shape, config), comparison.changed), comparison.removed)
    return [(manager, path) for manager, path in conflicts.fields if not has(own, path)]


def _refresh_last_applied(metadata: JsonObject, applied: JsonObject) -> None:
    annotations = metadata.get("annotations")
    if not annotations or not annotations.get(LAST_APPLIED):
        return
    given = applied["metadata"].get("annotations") or {}
    if LAST_APPLIED in given:
        rest = {name: value for name, value in given.items() if name != LAST_APPLIED}
        applied = {**applied, "metadata": {**applied["metadata"], "annotations": rest}}
    metadata["annotations"] = annotations = {**annotations, LAST_APPLIED: encode_value(applied) + "\n"}
    if sum(len(name.encode()) + len(value.encode()) for name, value in annotations.items()) > _MAX_ANNOTATIONS:
        del annotations[LAST_APPLIED]
