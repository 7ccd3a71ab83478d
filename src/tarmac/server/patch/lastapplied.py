"""Migration of kubectl from client-side to server-side apply.

Client-side apply stored the last configuration in an annotation. When manager "kubectl" conflicts only over fields that
this configuration set to the values they still have, it takes them over; and while the annotation exists, kubectl's
server-side applies refresh it, so that an older kubectl can still return to client-side apply.
"""

from __future__ import annotations

import msgspec

from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.shared import LAST_APPLIED
from tarmac.server.patch import conformity
from tarmac.server.patch.comparing import compare
from tarmac.server.patch.conflicts import FieldConflict
from tarmac.server.patch.elements import encode_value
from tarmac.server.patch.fieldset import FieldSet, difference, has
from tarmac.server.patch.ownership import applied
from tarmac.server.patch.shapes import shape_of

KUBECTL = "kubectl"
_MAX_ANNOTATIONS = 256 * 1024

_decode = msgspec.json.Decoder().decode


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
        del annotations[LAST_APPLIED]


def _without_annotation(config: JsonObject) -> JsonObject:
    metadata = config.get("metadata") or {}
    given = metadata.get("annotations") or {}
    if LAST_APPLIED not in given:
        return config
    rest = {name: value for name, value in given.items() if name != LAST_APPLIED}
    return {**config, "metadata": {**metadata, "annotations": rest}}
