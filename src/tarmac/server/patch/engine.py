"""Entry point of this package: from the body of a PATCH request to the resulting object.

    check_type           rejects a content type that the resource does not support
    apply_patch          JSON patch, merge patch and strategic merge: the patched object, not yet decoded
    read_configuration   the configuration of a server-side apply, for `apply.server_side_apply`

Both also return notes about duplicate and meaningless keys; `fieldValidation` decides whether they are errors. The
object that `apply_patch` returns has to be decoded, pruned and defaulted like any object that a client sends;
`managed.for_update` then records the managers of its fields.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from tarmac.api.decode import parse_json, strictness
from tarmac.api.decode.extent import MAX_STORED_VALUES, check_extent
from tarmac.api.decode.findings import go_kind
from tarmac.api.decode.jsontext import Malformed, Parsed
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest, UnsupportedMediaType
from tarmac.server.patch.jsonpatch import apply_json_patch, notes_on_operations
from tarmac.server.patch.strategic import apply_strategic_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_encode = msgspec.json.Encoder().encode

_NESTED = (dict, list)


def check_type(resource: Resource, content_type: str) -> str:
    """Return the patch type of a Content-Type header. Raises UnsupportedMediaType."""
    patch_type = content_type.partition(";")[0].strip()
    if patch_type in (JSON_PATCH, MERGE_PATCH, APPLY_PATCH) or (resource.native and patch_type == STRATEGIC_PATCH):
        return patch_type
    if patch_type == STRATEGIC_PATCH:
        accepted = ", ".join((JSON_PATCH, MERGE_PATCH, APPLY_PATCH))
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        )
    raise UnsupportedMediaType("415: Unsupported Media Type", details={})


class Result(NamedTuple):
    """An object, and notes on the text it was parsed from."""

    obj: JsonObject
    notes: list[str]


def apply_patch(resource: Resource, patch_type: str, current: JsonObject, body: bytes) -> Result:
    """Return the patched object. It shares parts with `current`, which the caller must not use any more.

    Raises BadRequest for a malformed patch, Invalid for one that does not fit the object.
    """
    prefix = "" if patch_type == STRATEGIC_PATCH else "error decoding patch: "
    parsed = _parse(body, prefix)
    if patch_type == JSON_PATCH:
        patched = apply_json_patch(current, parsed.value)
        check_extent(_encode(patched), MAX_STORED_VALUES)  # a few copy operations can produce a huge object
        return Result(patched, notes_on_operations(parsed))
    notes = strictness.repeated_fields(parsed.pairs)
    patch = _mapping(parsed.value, prefix)
    if patch is not None and resource.native:  # expand shorthands first, so that they also override stored values
        resource.strategy.normalise(patch)
    if patch_type == STRATEGIC_PATCH:
        return Result(apply_strategic_patch(resource.schema, current, patch or {}), notes)
    if patch is None:
        raise BadRequest("Invalid JSON Patch")
    return Result(apply_merge_patch(current, patch), notes)


def read_configuration(resource: Resource, body: bytes) -> Result:
    """Return the object in the body of an apply, JSON or YAML, with expanded shorthands. Raises BadRequest."""
    from tarmac.api.decode.yamltext import parse_yaml  # imported on first use: not needed at start

    try:
        config, notes = parse_yaml(body)
    except Malformed as error:
        raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    configuration = _mapping(config, "error decoding YAML: error unmarshaling JSON: while decoding JSON: ") or {}
    resource.strategy.normalise(configuration)
    return Result(configuration, notes)


def _parse(body: bytes, prefix: str) -> Parsed:
    try:
        return parse_json(body)
    except Malformed as error:
        raise BadRequest(f"{prefix}{error}") from None


def _mapping(value: Any, prefix: str) -> JsonObject | None:
    if value is not None and not isinstance(value, dict):
        raise BadRequest(
            f"{prefix}json: cannot unmarshal {go_kind(value)} into Go value of type map[string]interface {{}}"
        )
    return value


# JSON merge patch (RFC 7386).
#
# As in Kubernetes, nulls inside objects inside a new array are dropped as well.


def apply_merge_patch(document: Any, patch: Any) -> Any:
    """Return the merged document: objects merge, null removes, everything else replaces."""
    if not isinstance(patch, dict) or not isinstance(document, dict):
        return without_nulls(patch)
    merged: JsonObject = dict(document)
    for name, value in patch.items():
        if value is None:
            merged.pop(name, None)
        elif name in merged:
            merged[name] = apply_merge_patch(merged[name], value)
        else:
            merged[name] = without_nulls(value)
    return merged


def without_nulls(value: Any) -> Any:
    """Return a copy of a value without null members in its objects."""
    if isinstance(value, dict):
        return {
            name: without_nulls(item) if isinstance(item, _NESTED) else item
            for name, item in value.items()
            if item is not None
        }
    if isinstance(value, list):
        return [without_nulls(item) if isinstance(item, _NESTED) else item for item in value]
    return value
