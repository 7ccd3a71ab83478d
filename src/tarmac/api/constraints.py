"""Checks that a schema alone can make: required fields, closed sets, bounds, lengths, patterns, unique items.

Kubernetes makes the same checks from the schema of a CRD, and the messages are the same. Types are not checked here:
the value has already been decoded. The walk follows the data, in the order in which the schema declares its fields.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from typing import Any

import msgspec

from tarmac.api.schema import Json, Schema, Type
from tarmac.base.fielderrors import FieldErrors

_pattern = lru_cache(maxsize=256)(re.compile)
_encode = msgspec.json.Encoder(order="sorted").encode

_LOOKED_AT = 1000  # items checked of a list that exceeds its limit; checking all of them would take too long


def check(value: Json, schema: Schema, path: str, errors: FieldErrors) -> None:
    """Add a cause for every violation of `schema` in `value`."""
    if isinstance(value, dict):
        _object(value, schema, path, errors)
    elif isinstance(value, list):
        _list(value, schema, path, errors)
    elif isinstance(value, str):
        _string(value, schema, path, errors)
    elif isinstance(value, int | float) and not isinstance(value, bool):
        _number(value, schema, path, errors)


def _object(value: dict[str, Any], schema: Schema, path: str, errors: FieldErrors) -> None:
    if schema.type is Type.MAP and schema.items is not None:
        if schema.max_items is not None and len(value) > schema.max_items:
            errors.too_many(path, len(value), schema.max_items)
            return
        for key, item in value.items():
            check(item, schema.items, f"{path}.{key}", errors)
        return
    for name, field, required in _bound_fields(schema):
        item = value.get(name)
        if item is not None:
            check(item, field, f"{path}.{name}" if path else name, errors)
        elif required:
            errors.required(f"{path}.{name}" if path else name)


@cache
def _bound_fields(schema: Schema) -> tuple[tuple[str, Schema, bool], ...]:
    """Return the fields of an object that a rule applies to, each with its schema and True if it is required."""
    fields = schema.fields.items()
    required = frozenset(schema.required)
    return tuple((name, field, name in required) for name, field in fields if name in required or _is_bound(field))


@cache
def _is_bound(schema: Schema) -> bool:
    """Return True if a rule applies to a value or to any value below it."""
    own = (
        schema.enum, schema.pattern, schema.min_length, schema.max_length, schema.minimum, schema.maximum,
        schema.min_items, schema.max_items,
    )  # fmt: skip
    below = (*schema.fields.values(), *((schema.items,) if schema.items is not None else ()))
    keyed = schema.list_type in ("set", "map")
    return bool(schema.required) or keyed or any(bound not in (None, ()) for bound in own) or any(map(_is_bound, below))


def _list(value: list[Any], schema: Schema, path: str, errors: FieldErrors) -> None:
    if schema.min_items is not None and len(value) < schema.min_items:
        errors.invalid(path, len(value), f"{path} in body should have at least {schema.min_items} items")
    if schema.max_items is not None and len(value) > schema.max_items:
        errors.too_many(path, len(value), schema.max_items)
        if len(value) > _LOOKED_AT:
            return
    seen: set[bytes] = set()
    for index, item in enumerate(value):
        if schema.items is not None:
            check(item, schema.items, f"{path}[{index}]", errors)
        identity = _identity(item, schema)
        if identity is not None:
            shown = _encode(identity)
            if shown in seen:
                errors.duplicate(f"{path}[{index}]", identity)
            seen.add(shown)


def _identity(item: Json, schema: Schema) -> Json:
    """Return the part of a list item that must be unique, or None."""
    if schema.list_type == "set":
        return item
    if schema.list_type == "map" and isinstance(item, dict):
        return {key: item.get(key) for key in schema.list_map_keys}
    return None


def _string(value: str, schema: Schema, path: str, errors: FieldErrors) -> None:
    if schema.enum and value not in schema.enum:
        errors.not_supported(path, value, schema.enum)
    if schema.min_length is not None and len(value) < schema.min_length:
        errors.invalid(path, value, f"{path} in body should be at least {schema.min_length} chars long")
    if schema.max_length is not None and len(value) > schema.max_length:
        errors.too_long(path, value, schema.max_length)
    if schema.pattern is not None and not _pattern(schema.pattern).search(value):
        errors.invalid(path, value, f"{path} in body should match '{schema.pattern}'")


def _number(value: float, schema: Schema, path: str, errors: FieldErrors) -> None:
    if schema.minimum is not None and value < schema.minimum:
        errors.invalid(path, value, f"{path} in body should be greater than or equal to {schema.minimum}")
    if schema.maximum is not None and value > schema.maximum:
        errors.invalid(path, value, f"{path} in body should be less than or equal to {schema.maximum}")
