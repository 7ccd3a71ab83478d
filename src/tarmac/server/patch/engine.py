"""The door to this package: from the body of a PATCH request to the object it asks for.

    check_type           refuses a content type that the resource does not take
    apply_patch          JSON patch, merge patch and strategic merge: the patched object, not yet decoded
    read_configuration   the configuration of a server-side apply, for `apply.server_side_apply`
    unusable_result      the refusal when the patched object does not decode

What `apply_patch` returns has to be decoded, pruned and defaulted like any object that a client sends; who manages its
fields is then recorded by `managed.for_update`.
"""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.decode.findings import go_kind
from tarmac.api.decode.jsontext import Malformed, parse_json
from tarmac.api.resource import Resource
from tarmac.api.schema import Json, JsonObject
from tarmac.api.status import BadRequest, Invalid, UnsupportedMediaType
from tarmac.base.fielderrors import FieldError
from tarmac.server.patch.gotext import go_text
from tarmac.server.patch.jsonpatch import apply_json_patch
from tarmac.server.patch.mergepatch import apply_merge_patch
from tarmac.server.patch.strategic import apply_strategic_patch

JSON_PATCH = "application/json-patch+json"
MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_PATCH = "application/strategic-merge-patch+json"
APPLY_PATCH = "application/apply-patch+yaml"

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.Decoder().decode


def check_type(resource: Resource, content_type: str) -> str:
    """The patch type of a Content-Type header. Raises UnsupportedMediaType."""
    patch_type = content_type.partition(";")[0].strip()
    if patch_type in (JSON_PATCH, MERGE_PATCH, APPLY_PATCH) or (resource.native and patch_type == STRATEGIC_PATCH):
        return patch_type
    if patch_type == STRATEGIC_PATCH:
        accepted = ", ".join((JSON_PATCH, MERGE_PATCH, APPLY_PATCH))
        raise UnsupportedMediaType(
            f"the body of the request was in an unknown format - accepted media types include: {accepted}"
        )
    raise UnsupportedMediaType("415: Unsupported Media Type", details={})


def apply_patch(resource: Resource, patch_type: str, current: JsonObject, body: bytes) -> JsonObject:
    """The patched object, made of parts of `current`, which is the caller's to give away.

    Raises BadRequest for a malformed patch, Invalid for one that does not fit the object.
    """
    patched = _patched(resource, patch_type, current, body)
    # Only a JSON patch can put one part of the object in two places.
    return _decode(_encode(patched)) if patch_type == JSON_PATCH else patched


def _patched(resource: Resource, patch_type: str, current: JsonObject, body: bytes) -> JsonObject:
    if patch_type == JSON_PATCH:
        return apply_json_patch(current, _parse(body, "error decoding patch: "))
    if patch_type == MERGE_PATCH:
        patch = _mapping(_parse(body, "error decoding patch: "), "error decoding patch: ")
        if patch is None:
            raise BadRequest("Invalid JSON Patch")
        return apply_merge_patch(current, patch)
    return apply_strategic_patch(resource.schema, current, _mapping(_parse(body, ""), "") or {})


def _yaml(body: bytes) -> Json:
    from tarmac.api.decode.yamltext import parse_yaml  # clients mostly send JSON; the server starts without it

    return parse_yaml(body).value


def read_configuration(resource: Resource, body: bytes) -> JsonObject:
    """The object in the body of an apply, JSON or YAML, its shorthands written out. Raises BadRequest."""
    try:
        config = parse_json(body).value if body.lstrip()[:1] == b"{" else _yaml(body)
    except Malformed as error:
        raise BadRequest(f"error decoding YAML: error converting YAML to JSON: {error}") from None
    configuration = _mapping(config, "error decoding YAML: error unmarshaling JSON: while decoding JSON: ") or {}
    resource.strategy.normalise(configuration)
    return configuration


def unusable_result(patch_type: str, patched: JsonObject, body: bytes, why: str) -> Invalid:
    """The patched object is not one of this kind."""
    shown = go_text(_parse(body, "")) if patch_type == STRATEGIC_PATCH else _encode_sorted(patched).decode()
    cause = FieldError("Invalid", "patch", shown, why)
    details = {"causes": [{"reason": cause.reason, "message": cause.message, "field": "patch"}]}
    return Invalid(f' "" is invalid: {cause}', details=details)


def _parse(body: bytes, prefix: str) -> Json:
    try:
        return parse_json(body).value
    except Malformed as error:
        raise BadRequest(f"{prefix}{error}") from None


def _mapping(value: Any, prefix: str) -> JsonObject | None:
    if value is not None and not isinstance(value, dict):
        raise BadRequest(
            f"{prefix}json: cannot unmarshal {go_kind(value)} into Go value of type map[string]interface {{}}"
        )
    return value
