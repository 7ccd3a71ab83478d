"""The names and lists of `resource.k8s.io`: limits, and checks that its kinds share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from tarmac.api import checks
from tarmac.api.kubernetes.core.volumeclaims import validate_driver_name
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

MAX_REQUESTS: Final = 32  # also of constraints, configurations, selectors and results
MAX_EXPRESSION: Final = 10 * 1024
_MAX_PARAMETERS: Final = 10 * 1024  # bytes as JSON
_MAX_ID: Final = 32
_MAX_POOL: Final = 253

Check = Callable[[Any, str, FieldErrors], None]


def each(items: Sequence[Any], most: int, check: Check, path: str, errors: FieldErrors) -> None:
    """Check every item, unless there are too many."""
    if len(items) > most:
        errors.too_many(path, len(items), most)
        return
    for index, item in enumerate(items):
        check(item, f"{path}[{index}]", errors)


def unique(
    items: Sequence[Any], most: int, check: Check, key: Callable[[Any], Any], path: str, errors: FieldErrors
) -> None:
    """The same for a list whose items have keys of their own."""
    each(items, most, check, path, errors)
    seen: set[Any] = set()
    for index, item in enumerate(items if len(items) <= most else ()):
        if (found := key(item)) in seen:
            errors.duplicate(f"{path}[{index}]", found)
        seen.add(found)


def name_of(item: JsonObject) -> str:
    """Return the field `name`, the key of most lists."""
    return item.get("name", "")


def pool_name(name: str, path: str, errors: FieldErrors) -> None:
    """Check the name of a pool: DNS subdomains separated by slashes."""
    if not name:
        errors.required(path)
        return
    if len(name) > _MAX_POOL:
        errors.too_long(path, name, _MAX_POOL)
    for part in name.split("/"):
        checks.dns_subdomain(part, path, errors)


def attribute_name(name: str, path: str, errors: FieldErrors) -> None:
    """Check the name of an attribute or capacity: an identifier, with or without a domain."""
    parts = name.split("/")
    if len(parts) == 1:
        _identifier(name, path, errors)
    elif len(parts) == 2:
        domain, identifier = parts
        if domain:
            validate_driver_name(domain, path, errors)
        else:
            errors.invalid(path, "", "the domain must not be empty")
        if identifier:
            _identifier(identifier, path, errors)
        else:
            errors.invalid(path, "", "the name must not be empty")


def full_attribute_name(name: str, path: str, errors: FieldErrors) -> None:
    """Check the name of an attribute that must have a domain."""
    attribute_name(name, path, errors)
    if "/" not in name:
        errors.invalid(path, name, "a fully qualified name must be a domain and a name separated by a slash")


def _identifier(text: str, path: str, errors: FieldErrors) -> None:
    if len(text) > _MAX_ID:
        errors.too_long(path, text, _MAX_ID)
    checks.report(names.c_identifier(text), text, path, errors)


def selector(item: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check a selector of devices. Its CEL expression is stored and neither compiled nor evaluated."""
    cel = item.get("cel")
    if cel is None:
        errors.required(f"{path}.cel")
        return
    expression, at = cel.get("expression", ""), f"{path}.cel.expression"
    if not expression:
        errors.required(at)
    elif len(expression.encode()) > MAX_EXPRESSION:
        errors.too_long(at, expression, MAX_EXPRESSION)


def configuration(item: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check the configuration of devices for a driver."""
    opaque = item.get("opaque")
    if opaque is None:
        errors.required(f"{path}.opaque")
        return
    validate_driver_name(opaque.get("driver", ""), f"{path}.opaque.driver", errors)
    raw_object(opaque.get("parameters"), f"{path}.opaque.parameters", errors)


def raw_object(value: Any, path: str, errors: FieldErrors) -> None:
    """Check a JSON object of any content."""
    if value is None:
        errors.required(path)
    elif not isinstance(value, dict):
        errors.invalid(path, "<value omitted>", "must be a valid JSON object")
    elif len(msgspec.json.encode(value)) > _MAX_PARAMETERS:
        errors.too_long(path, "", _MAX_PARAMETERS)
