"""The `apiVersion` and `kind` of a body, and the responses if they do not match the URL."""

from __future__ import annotations

from tarmac.api.decode.findings import go_kind
from tarmac.api.resource import Resource
from tarmac.api.schema import Json, JsonObject
from tarmac.api.status import BadRequest, invalid
from tarmac.api.tables import is_published
from tarmac.base.fielderrors import FieldErrors


class UndecodableBody(Exception):
    """The body cannot be decoded; the caller chooses the Status."""


def unrecognized(kind: str, why: str, body: bytes) -> BadRequest:
    """Return the response to a body that is not an object of any kind."""
    return BadRequest(f"the object provided is unrecognized (must be of type {kind}): {why} ({_summary(body)})")


def _summary(body: bytes) -> str:
    if not body:
        return "<empty>"
    head, more = body[:30], " ..." if len(body) > 30 else ""
    return (head.decode("utf-8", "replace") if body.startswith(b"{") else head.hex()) + more


_TYPE_META = r'struct { APIVersion string "json:\"apiVersion,omitempty\""; Kind string "json:\"kind,omitempty\"" }'


def object_or_refuse(value: Json) -> JsonObject:
    """Return the value as a JSON object with strings for apiVersion and kind; null is an empty object, as in Go."""
    if value is None:
        return {}
    if type(value) is not dict:
        raise _unreadable(value, f"value of type {_TYPE_META}")
    for field in ("apiVersion", "kind"):
        given = value.get(field)
        if given is not None and type(given) is not str:
            raise _unreadable(given, f"struct field .{field} of type string")
    return value


def _unreadable(value: Json, wanted: str) -> UndecodableBody:
    problem = f"json: cannot unmarshal {go_kind(value)} into Go {wanted}"
    return UndecodableBody(f"couldn't get version/kind; json parse error: {problem}")


def native_object(value: Json, body: bytes, kind: str) -> JsonObject:
    """Return the object in a body; Kubernetes' own kinds may omit apiVersion and kind."""
    try:
        return object_or_refuse(value)
    except UndecodableBody as refusal:
        raise unrecognized(kind, str(refusal), body) from None


def check_header(obj: JsonObject, group: str, version: str, kind: str, body: bytes) -> None:
    """Fill in missing apiVersion and kind; reject other ones. Raises BadRequest."""
    api_version = f"{group}/{version}" if group else version
    given_version, given_kind = obj.get("apiVersion") or api_version, obj.get("kind") or kind
    problem = kind_problem(given_version, given_kind, api_version, kind)
    if problem is not None:
        if given_version.count("/") > 1:
            raise unrecognized(kind, problem, body)
        given = given_version.rpartition("/")[2]
        raise BadRequest(f'{given_kind} in version "{given}" cannot be handled as a {kind}: {problem}')
    obj["apiVersion"], obj["kind"] = api_version, kind


# versions of a body that Kubernetes converts, with the same fields
_CONVERTED = {("policy/v1beta1", "Eviction")}


def kind_problem(given_version: str, given_kind: str, api_version: str, kind: str) -> str | None:
    """Return the reason why an object of one kind is not accepted as another, or None if it is of that kind."""
    if given_kind == kind and (given_version == api_version or (given_version, kind) in _CONVERTED):
        return None
    if given_version.count("/") > 1:
        return f"unexpected GroupVersion string: {given_version}"
    group, _, version = given_version.rpartition("/")
    if not is_published(group, version, given_kind):
        return not_registered(given_kind, given_version)
    if given_kind == kind == "Event":  # the only kind that is served in two groups
        raise _other_version(given_version, api_version)
    package = (api_version.rpartition("/")[0] or "core").partition(".")[0]
    return f"converting ({version}.{given_kind}) to ({package}.{kind}): unknown conversion"


def not_registered(kind: str, version: str) -> str:
    """Return Kubernetes' message about an unknown kind."""
    return f'no kind "{kind}" is registered for version "{version}" in scheme "pkg/runtime/scheme.go:111"'


def _other_version(given: str, wanted: str) -> BadRequest:
    return BadRequest(f"the API version in the data ({given}) does not match the expected API version ({wanted})")


def own_object(resource: Resource, value: Json, body: bytes) -> JsonObject:
    """Return the object in a body of one of Tarmac's kinds, which must state apiVersion and kind."""
    obj = native_object(value, body, resource.kind)
    if not obj.get("kind"):
        why = f"Object 'Kind' is missing in '{body.decode('utf-8', 'replace')}'"
        raise unrecognized(resource.kind, why, body)
    given = obj.get("apiVersion") or ""
    if given != resource.api_version:
        raise _other_version(given, resource.api_version)
    check_own_kind(resource, obj)
    return obj


def check_own_kind(resource: Resource, obj: JsonObject) -> None:
    """Reject an object with another apiVersion or kind than the resource's."""
    for field, wanted in (("apiVersion", resource.api_version), ("kind", resource.kind)):
        given = obj.get(field)
        if given != wanted:
            errors = FieldErrors()
            errors.invalid(field, given, f"must be {wanted}")
            raise invalid(resource.group, str(obj.get("kind")), stated_name(obj), errors)


def stated_name(obj: JsonObject) -> str:
    """Return the object's name, or "" if it has none or the value, not validated yet, is not a string."""
    metadata = obj.get("metadata")
    name = metadata.get("name") if isinstance(metadata, dict) else None
    return name if isinstance(name, str) else ""
