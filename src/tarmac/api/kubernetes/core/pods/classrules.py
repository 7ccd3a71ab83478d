"""Rules for QoS types and classes in pods, nodes, quotas and limit ranges.

A type is an optionally prefixed name, a class one without a prefix. There is no list of known names: each node decides
which ones exist. Types that also have a long name are stored under their short one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tarmac.api import checks
from tarmac.api.kubernetes.core.pods.podclasses import POD_QOS, stored_type
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

MAX_TYPES = 16
"""Maximum number of types in one map or list."""

MAX_CLASSES = 128
"""Maximum number of classes of one type in a list."""


def store_map(owner: JsonObject, field: str) -> None:
    """Convert the types of a map to their short names, in place.

    A type present under both names stays, to be rejected.
    """
    classes = owner.get(field)
    if classes and any(stored_type(kind) != kind and stored_type(kind) not in classes for kind in classes):
        owner[field] = {
            stored_type(kind) if stored_type(kind) not in classes else kind: name for kind, name in classes.items()
        }


def store_list(owner: JsonObject, field: str) -> None:
    """Convert the types of a list to their short names, in place."""
    for item in owner.get(field) or ():
        if (name := item.get("name")) is not None:
            item["name"] = stored_type(name)


def class_map(classes: Mapping[str, str], path: str, errors: FieldErrors) -> None:
    """Check requested classes by type."""
    if len(classes) > MAX_TYPES:
        errors.too_many(path, len(classes), MAX_TYPES)
        return
    for kind, name in classes.items():
        at = f"{path}[{kind}]"
        type_name(kind, at, errors)
        class_name(name, at, errors)
        if stored_type(kind) != kind:  # its short name is present, too
            errors.duplicate(at, stored_type(kind))
        if stored_type(kind) == POD_QOS:
            errors.forbidden(at, "is told to runtimes and cannot be asked for")


def effective_map(classes: Mapping[str, str], path: str, errors: FieldErrors) -> None:
    """Check effective classes by type; an empty value means no class."""
    if len(classes) > MAX_TYPES:
        errors.too_many(path, len(classes), MAX_TYPES)
        return
    for kind, name in classes.items():
        type_name(kind, f"{path}[{kind}]", errors)
        if name:
            class_name(name, f"{path}[{kind}]", errors)


def type_list(types: Sequence[JsonObject], path: str, least: int, errors: FieldErrors) -> None:
    """Check types with their classes. Each class has a capacity of at least `least`, or none."""
    if len(types) > MAX_TYPES:
        errors.too_many(path, len(types), MAX_TYPES)
        return
    seen: set[str] = set()
    for index, item in enumerate(types):
        name: str = item.get("name", "")
        type_name(name, f"{path}[{index}].name", errors)
        if name in seen:
            errors.duplicate(f"{path}[{index}].name", name)
        seen.add(name)
        _class_list(item.get("classes") or (), f"{path}[{index}].classes", least, errors)


def _class_list(classes: Sequence[JsonObject], path: str, least: int, errors: FieldErrors) -> None:
    if len(classes) > MAX_CLASSES:
        errors.too_many(path, len(classes), MAX_CLASSES)
        return
    seen: set[str] = set()
    for index, item in enumerate(classes):
        name: str = item.get("name", "")
        class_name(name, f"{path}[{index}].name", errors)
        if name in seen:
            errors.duplicate(f"{path}[{index}].name", name)
        seen.add(name)
        capacity = item.get("capacity")
        if capacity is not None and capacity < least:
            errors.invalid(f"{path}[{index}].capacity", capacity, f"must be greater than or equal to {least}")


def type_name(name: str, path: str, errors: FieldErrors) -> None:
    """Check a type name: `blockio`, `example.com/cache`."""
    if not name:
        errors.required(path, "name a type, such as blockio")
    elif messages := names.qualified_name(name):
        checks.report(messages, name, path, errors)


def class_name(name: str, path: str, errors: FieldErrors) -> None:
    """Check a class name: `slow`."""
    if not name:
        errors.required(path, "name a class")
    elif messages := names.label_value(name):
        checks.report(messages, name, path, errors)
