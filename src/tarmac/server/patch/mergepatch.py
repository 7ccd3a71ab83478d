"""JSON merge patch (RFC 7386).

As in Kubernetes, nulls inside objects inside a new array are dropped as well.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject

_NESTED = (dict, list)


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
