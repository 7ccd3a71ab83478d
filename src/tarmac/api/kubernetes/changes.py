"""Comparison of two versions of an object: carrying over old values, and describing differences."""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject


def keep(target: JsonObject, source: JsonObject, field: str) -> JsonObject:
    """Copy `field` from `source` to `target`, including its absence."""
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)
    return target


def describe(old: Any, new: Any, path: str = "spec") -> str:
    """Return the fields that differ, one line each, for the message of a rejected update."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys([*old, *new])
        parts = [describe(old.get(key), new.get(key), f"{path}.{key}") for key in keys]
        return "\n".join(part for part in parts if part)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        parts = [describe(before, after, f"{path}[{index}]") for index, (before, after) in pairs]
        return "\n".join(part for part in parts if part)
    return "" if old == new else f"  {path}: {old!r} → {new!r}"
