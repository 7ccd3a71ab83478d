"""Field checks that several of Kubernetes' kinds share.

Each check takes the value, its path and the collecting `FieldErrors`. A valid value costs one comparison or one regular
expression; messages and longer paths are built only for invalid values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

IMMUTABLE = "field is immutable"
NOT_NEGATIVE = "must be greater than or equal to 0"
FILE_MODE = "must be a number between 0 and 0777 (octal), both inclusive"
PORT_RANGE = "must be between 1 and 65535, inclusive"
ID_RANGE = "must be between 0 and 2147483647, inclusive"
PROTOCOLS = ("SCTP", "TCP", "UDP")
PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_MAX_ID = 2**31 - 1


def report(messages: Iterable[str], value: Any, path: str, errors: FieldErrors) -> None:
    """Add one Invalid cause per message of a name check."""
    for message in messages:
        errors.invalid(path, value, message)


def dns_label(value: str, path: str, errors: FieldErrors) -> None:
    """Check a DNS label."""
    report(names.dns1123_label(value), value, path, errors)


def dns_subdomain(value: str, path: str, errors: FieldErrors) -> None:
    """Check a DNS subdomain: most object names."""
    report(names.dns1123_subdomain(value), value, path, errors)


def qualified_name(value: str, path: str, errors: FieldErrors) -> None:
    """Check an optionally prefixed name, such as a label key."""
    report(names.qualified_name(value), value, path, errors)


def ip_address(value: str, path: str, errors: FieldErrors) -> None:
    """Check an address of either family."""
    report(names.ip_address(value), value, path, errors)


def labels(pairs: Mapping[str, str], path: str, errors: FieldErrors) -> None:
    """Check a set of labels. Kubernetes reports all errors at the path of the whole set."""
    for key, value in pairs.items():
        report(names.qualified_name(key), key, path, errors)
        report(names.label_value(value), value, path, errors)


def label_selector(selector: JsonObject | None, path: str, errors: FieldErrors) -> None:
    """Check a metav1.LabelSelector."""
    if not selector:
        return
    if pairs := selector.get("matchLabels"):
        labels(pairs, f"{path}.matchLabels", errors)
    for index, requirement in enumerate(selector.get("matchExpressions") or ()):
        selector_requirement(requirement, f"{path}.matchExpressions[{index}]", errors)


def unique_name(name: str, seen: set[str], path: str, errors: FieldErrors) -> None:
    """Check the name of an entry in a list: a DNS label that no earlier entry has."""
    if not name:
        errors.required(path)
        return
    dns_label(name, path, errors)
    if name in seen:
        errors.duplicate(path, name)
    seen.add(name)


def selector_requirement(
    requirement: JsonObject, path: str, errors: FieldErrors, *, ordered: bool = False, check_values: bool = True
) -> None:
    """Check one expression of a selector. `ordered`: labels may also be compared as numbers, as those of nodes are."""
    values = requirement.get("values") or ()
    match requirement.get("operator", ""):
        case "In" | "NotIn":
            if not values:
                errors.required(f"{path}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        case "Exists" | "DoesNotExist":
            if values:
                errors.forbidden(f"{path}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        case "Gt" | "Lt" if ordered:
            if len(values) != 1:
                errors.required(f"{path}.values", "must be specified single value when `operator` is 'Lt' or 'Gt'")
        case other:
            errors.invalid(f"{path}.operator", other, "not a valid selector operator")
    qualified_name(requirement.get("key", ""), f"{path}.key", errors)
    for index, value in enumerate(values if check_values else ()):
        report(names.label_value(value), value, f"{path}.values[{index}]", errors)


def one_of(value: str, supported: Collection[str], path: str, errors: FieldErrors) -> None:
    """Check a required value of a closed set. `supported` is in the order that messages list it."""
    if value in supported:
        return
    if not value:
        errors.required(path)
    else:
        errors.not_supported(path, value, supported)


def immutable(new: Any, old: Any, path: str, errors: FieldErrors) -> None:
    """Check that a value has not changed."""
    if new != old:
        errors.invalid(path, new, IMMUTABLE)


def non_negative(value: int, path: str, errors: FieldErrors) -> None:
    """Check a count or a number of seconds."""
    if value < 0:
        errors.invalid(path, value, NOT_NEGATIVE)


def port_number(value: int, path: str, errors: FieldErrors) -> None:
    """Check a TCP or UDP port."""
    if not 1 <= value <= 65535:
        errors.invalid(path, value, PORT_RANGE)


def port_number_or_name(value: int | str, path: str, errors: FieldErrors) -> None:
    """Check a port, or the name of a container's port."""
    if isinstance(value, int):
        port_number(value, path, errors)
    else:
        report(names.port_name(value), value, path, errors)


def user_or_group(value: int, path: str, errors: FieldErrors) -> None:
    """Check a Unix user or group number."""
    if not 0 <= value <= _MAX_ID:
        errors.invalid(path, value, ID_RANGE)


def file_mode(owner: JsonObject, key: str, path: str, errors: FieldErrors) -> None:
    """Check an optional permission number at `key` of `owner`."""
    mode = owner.get(key)
    if mode is not None and not 0 <= mode <= 0o777:
        errors.invalid(f"{path}.{key}", mode, FILE_MODE)


def no_backsteps(value: str, path: str, errors: FieldErrors) -> None:
    """Check that a path has no `..` in it."""
    if ".." in value and ".." in value.split("/"):
        errors.invalid(path, value, "must not contain '..'")


def relative_path(value: str, path: str, errors: FieldErrors) -> None:
    """Check a relative path that stays below its root."""
    if value.startswith("/"):
        errors.invalid(path, value, "must be a relative path")
    no_backsteps(value, path, errors)


def projected_path(value: str, path: str, errors: FieldErrors) -> None:
    """Check a relative path that does not collide with the kubelet's own `..data` names."""
    relative_path(value, path, errors)
    if value.startswith("..") and not value.startswith("../"):
        errors.invalid(path, value, "must not start with '..'")


def env_var_name(value: str, path: str, errors: FieldErrors) -> None:
    """Check the name of an environment variable: printable ASCII without an equals sign."""
    if not (value.isascii() and value.isprintable() and "=" not in value):
        errors.invalid(
            path,
            value,
            "a valid environment variable name must consist only of printable ASCII characters other than '='",
        )


def metadata_of(obj: JsonObject) -> JsonObject:
    """Return the object's metadata, which decoding guarantees."""
    return obj["metadata"]


def annotations_of(obj: JsonObject) -> dict[str, str]:
    """Return the object's annotations, or an empty dict that must not be changed."""
    return obj["metadata"].get("annotations") or {}


def mapping(obj: JsonObject | None, *keys: str) -> JsonObject:
    """Return the object found by following `keys`, or an empty one that must not be changed."""
    for key in keys:
        obj = (obj or {}).get(key)
    return obj or {}


def objects(obj: JsonObject | None, *keys: str) -> list[JsonObject]:
    """Return the list of objects found by following `keys`, or an empty one that must not be changed."""
    found: Any = obj
    for key in keys:
        found = (found or {}).get(key)
    return found or []


def go_struct(obj: JsonObject, *fields: tuple[str, Any]) -> JsonObject:
    """Return an object as messages quote it: with Go's field names (`Name` for `name`), including zero values."""
    return {name: obj.get(_json_name(name), zero) for name, zero in fields}


def _json_name(name: str) -> str:
    return {"APIGroup": "apiGroup", "IP": "ip"}.get(name) or name[0].lower() + name[1:]
