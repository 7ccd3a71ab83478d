"""Decoding of a request body into a checked object, with Kubernetes' responses to invalid bodies.

Kubernetes' own kinds are decoded as Go decodes them into typed structs: type and kind may be omitted, the first wrong
type is a 400. Tarmac's kinds behave as custom resources: type and kind are required, and a 422 lists all wrong types.
Unknown and repeated fields are dropped; the client chooses (`fieldValidation`) if that is silent, a warning or an
error.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from tarmac.api.decode import strictness
from tarmac.api.decode.findings import add_mismatches, go_kind, go_text, locate, show
from tarmac.api.decode.jsontext import Malformed, Written, parse_json
from tarmac.api.decode.media import PROTOBUF, YAML, body_type
from tarmac.api.decode.rules import BodyWalk, Mismatch, TooManyItems, compile_rule
from tarmac.api.decode.typemeta import (
    UndecodableBody,
    check_header,
    check_own_kind,
    kind_problem,
    native_object,
    not_registered,
    object_or_refuse,
    own_object,
    stated_name,
    unrecognized,
)
from tarmac.api.resource import Resource
from tarmac.api.schema import Json, JsonObject, Schema
from tarmac.api.status import BadRequest, Invalid, invalid
from tarmac.api.tables import load_schema
from tarmac.base.fielderrors import FieldError, FieldErrors


class Decoded(NamedTuple):
    """An object ready for admission, and texts for Warning headers."""

    obj: JsonObject
    warnings: list[str]


class _Body(NamedTuple):
    """A parsed body: `pairs` if JSON keys repeat, `notes` on fields that the parser dropped or found twice."""

    value: Json
    pairs: Written | None
    notes: list[str]


def decode_object(resource: Resource, body: bytes, content_type: str = "", field_validation: str = "") -> Decoded:
    """Return the object in a POST or PUT of a resource. Raises BadRequest, UnsupportedMediaType, Invalid."""
    if resource.native:
        return decode_kind(resource.group, resource.version, resource.kind, body, content_type, field_validation)
    kind = (resource.group, resource.version, resource.kind)
    parsed = _parse(body, body_type(content_type, native=False), kind)
    obj = own_object(resource, parsed.value, body)
    try:
        return Decoded(obj, _check_own(resource, obj, field_validation, parsed))
    except UndecodableBody as refusal:
        raise _not_handled(resource.kind, resource.version, refusal) from None
    except TooManyItems as found:
        raise _too_many(resource.group, resource.kind, obj, found) from None


def decode_kind(
    group: str, version: str, kind: str, body: bytes, content_type: str = "", field_validation: str = ""
) -> Decoded:
    """Return an object of one of Kubernetes' own kinds, which is a resource or the body of a subresource."""
    parsed = _parse(body, body_type(content_type, native=True), (group, version, kind))
    obj = native_object(parsed.value, body, kind)
    check_header(obj, group, version, kind, body)
    schema = load_schema(group, version, kind)
    try:
        return Decoded(obj, _check_native(schema, obj, field_validation, parsed))
    except UndecodableBody as refusal:
        raise _not_handled(kind, version, refusal) from None
    except TooManyItems as found:
        raise _too_many(group, kind, obj, found) from None


def _too_many(group: str, kind: str, obj: JsonObject, found: TooManyItems) -> Invalid:
    errors = FieldErrors()
    errors.too_many(show((*locate(obj)[id(found.container)], found.key)), found.count, found.most)
    return invalid(group, kind, stated_name(obj), errors)


def _not_handled(kind: str, version: str, why: UndecodableBody) -> BadRequest:
    return BadRequest(f'{kind} in version "{version}" cannot be handled as a {kind}: {why}')


def decode_delete_options(body: bytes, content_type: str = "") -> JsonObject:
    """Return the DeleteOptions in the body of a DELETE, of any group and version, or {} without a body."""
    if not body:
        return {}
    try:
        parsed = _read(body, body_type(content_type, native=True), ("", "v1", "DeleteOptions"))
        obj = object_or_refuse(parsed.value)
        kind, version = obj.get("kind") or "DeleteOptions", obj.get("apiVersion") or "v1"
        if kind != "DeleteOptions":
            raise UndecodableBody(not_registered(kind, version))
        _check_native(load_schema("", "v1", "DeleteOptions"), obj, "Ignore", _Body(obj, None, []))
    except (Malformed, UndecodableBody) as error:
        raise BadRequest(str(error)) from None
    return obj


def check_object(
    resource: Resource,
    obj: JsonObject,
    field_validation: str = "",
    notes: Sequence[str] = (),
    known: JsonObject | None = None,
) -> list[str]:
    """Check the result of a patch, in place; return warnings.

    `notes` are on repeated and unknown fields of the patch; `known` is a part that has been checked before.
    """
    try:
        _insist_on_object(resource, obj)
        if not resource.native:
            check_own_kind(resource, obj)
            return _check_own(resource, obj, field_validation, _Body(obj, None, [*notes]), known)
        _check_kind(resource, obj)
        return _check_native(resource.schema, obj, field_validation, _Body(obj, None, [*notes]), known)
    except UndecodableBody as refusal:
        cause = FieldError("Invalid", "patch", msgspec.json.encode(obj).decode(), str(refusal))
        details = {"causes": [{"reason": cause.reason, "message": cause.message, "field": cause.path}]}
        raise Invalid(f' "" is invalid: {cause}', details=details) from None
    except TooManyItems as found:
        raise _too_many(resource.group, resource.kind, obj, found) from None


def _insist_on_object(resource: Resource, obj: object) -> None:
    """Reject a non-object: a JSON patch of the whole document may produce any value."""
    if not isinstance(obj, dict):
        kind = "array" if isinstance(obj, list) else "null" if obj is None else type(obj).__name__
        raise UndecodableBody(f"json: cannot unmarshal {kind} into Go value of type v1.{resource.kind}")


def _check_kind(resource: Resource, obj: JsonObject) -> None:
    given_version, given_kind = obj.get("apiVersion") or resource.api_version, obj.get("kind") or resource.kind
    problem = kind_problem(str(given_version), str(given_kind), resource.api_version, resource.kind)
    if problem is not None:
        raise UndecodableBody(problem)


# --- reading ---


def _parse(body: bytes, media: str, kind: tuple[str, str, str]) -> _Body:
    try:
        return _read(body, media, kind)
    except Malformed as error:
        raise unrecognized(kind[2], str(error), body) from None


def _read(body: bytes, media: str, kind: tuple[str, str, str]) -> _Body:
    if media == PROTOBUF:
        # deferred: its tables are read for the first protobuf body
        from tarmac.api.decode.protobuf import parse_protobuf

        obj, notes = parse_protobuf(body, *kind)
        return _Body(obj, None, notes)
    if media == YAML:
        from tarmac.api.decode.yamltext import parse_yaml  # deferred: most servers never get a YAML body

        value, repeated = parse_yaml(body)
        return _Body(value, None, repeated)
    try:
        return _Body(*parse_json(body), [])
    except Malformed as error:
        raise Malformed(f"couldn't get version/kind; json parse error: {error}") from None


# --- fields ---


def _check_native(
    schema: Schema, obj: JsonObject, field_validation: str, body: _Body, known: JsonObject | None = None
) -> list[str]:
    pairs, notes = body.pairs, body.notes
    walk = BodyWalk(True, known)
    try:
        compile_rule(schema, native=True)(obj, walk, None, None)
    except Mismatch as found:
        raise UndecodableBody(go_text(found, obj, schema)) from None
    if not walk.unknown and pairs is None and not notes:
        return []
    return _judge(strictness.native_findings(walk.unknown, obj, pairs, notes), field_validation)


def _check_own(
    resource: Resource, obj: JsonObject, field_validation: str, body: _Body, known: JsonObject | None = None
) -> list[str]:
    pairs, notes = body.pairs, body.notes
    resource.strategy.normalise(obj)
    in_metadata, walk = BodyWalk(True), BodyWalk(False, known)
    _check_metadata(resource.schema.fields["metadata"], obj, in_metadata)
    # metadata follows Go's rules in all kinds, so the walk over the rest must not see it
    metadata = obj.pop("metadata")
    try:
        compile_rule(resource.schema, native=False)(obj, walk, None, None)
    finally:
        obj["metadata"] = metadata
    warnings: list[str] = []
    if in_metadata.unknown or walk.unknown or pairs is not None or notes:
        found = strictness.own_findings(in_metadata.unknown, walk.unknown, obj, pairs, notes)
        warnings = _judge(found, field_validation)
    if walk.mismatches:
        with FieldErrors() as errors:
            add_mismatches(walk.mismatches, obj, errors)
        raise invalid(resource.group, resource.kind, stated_name(obj), errors)
    return warnings


def _check_metadata(schema: Schema, obj: JsonObject, walk: BodyWalk) -> None:
    metadata = obj.get("metadata")
    if metadata is None:
        obj["metadata"] = {}
        return
    if type(metadata) is not dict:
        raise UndecodableBody(f"json: cannot unmarshal {go_kind(metadata)} into Go value of type v1.ObjectMeta")
    try:
        compile_rule(schema, native=True)(metadata, walk, None, None)
    except Mismatch as found:
        raise UndecodableBody(go_text(found, metadata, schema)) from None


def _judge(found: list[str], field_validation: str) -> list[str]:
    """Return the warnings about dropped fields, by default all of them. Raises UndecodableBody if Strict."""
    if field_validation == "Strict":
        raise UndecodableBody(f"strict decoding error: {strictness.joined(found)}")
    return [] if field_validation == "Ignore" else found
