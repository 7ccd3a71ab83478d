"""Comparing two versions of an object: carrying old values over, and telling what differs."""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject


def keep(target: JsonObject, source: JsonObject, field: str) -> JsonObject:
    """Make `field` of `target` what it is in `source`, absence included."""
    if field in source:
        target[field] = source[field]
    else:
        target.pop(field, None)
    return target


def describe(old: Any, new: Any, path: str = "spec") -> str:
    """The fields that differ, one line each, for the message of a refused update."""
    if isinstance(old, dict) and isinstance(new, dict):
        keys = dict.fromkeys([*old, *new])
        parts = [describe(old.get(key), new.get(key), f"{path}.{key}") for key in keys]
        return "\n".join(part for part in parts if part)
    if isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        pairs = enumerate(zip(old, new, strict=True))
        parts = [describe(before, after, f"{path}[{index}]") for index, (before, after) in pairs]
        return "\n".join(part for part in parts if part)
    return "" if old == new else f"  {path}: {old!r} → {new!r}"
