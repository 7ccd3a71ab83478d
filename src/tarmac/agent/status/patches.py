"""Computes the difference of two pod statuses as a strategic merge patch that leaves foreign fields alone."""

from __future__ import annotations

from tarmac.agent.status.conditions import OURS
from tarmac.api.schema import JsonObject

_MERGED = ("podIPs", "hostIPs", "resources")
"""Lists and maps that the server would merge by key: the patch replaces them."""
_OPTIONAL = (
    "reason",
    "message",
    "podIP",
    "podIPs",
    "ephemeralContainerStatuses",
    "initContainerStatuses",
    "resize",
    "resources",
)
"""Fields that the node may remove."""


def difference(before: JsonObject, after: JsonObject) -> JsonObject:
    """Return the patch from `before` to `after`; empty if they are equal."""
    patch: JsonObject = {}
    for field, value in after.items():
        if field == "conditions":
            if conditions := _conditions(before.get(field) or [], value):
                patch[field] = conditions
        elif before.get(field) != value:
            patch[field] = _whole(value, before.get(field)) if field in _MERGED else value
    patch |= {field: None for field in _OPTIONAL if field in before and field not in after}
    return patch


def _whole(value: JsonObject | list[JsonObject], before: object) -> JsonObject | list[JsonObject]:
    if isinstance(value, list):
        return [{"$patch": "replace"}, *value]
    return {"$patch": "replace", **value} if before else value


def _conditions(before: list[JsonObject], after: list[JsonObject]) -> list[JsonObject]:
    """Return changed conditions only. A removed field is sent as null, since the server would keep it otherwise."""
    known = {each["type"]: each for each in before}
    changed: list[JsonObject] = []
    for condition in after:
        old = known.pop(condition["type"], None)
        if old is None:
            changed.append(condition)
        elif any(old.get(field) != value for field, value in condition.items()) or _dropped(old, condition):
            changed.append({**condition, **dict.fromkeys(_dropped(old, condition))})
    changed += [{"$patch": "delete", "type": kind} for kind in known if kind in OURS]
    return changed


def _dropped(old: JsonObject, new: JsonObject) -> list[str]:
    return [field for field in ("reason", "message") if old.get(field) and field not in new]
