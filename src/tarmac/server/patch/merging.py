"""Merges an applied configuration into a live object.

`merge` only adds and overwrites. List items keep the order of both sides where the sides agree and follow the
configuration where they do not; items of only one side stay next to their neighbours on that side.

A null given for a container changes nothing, one given for a leaf stands for its absence: see `without_nulls`.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.server.patch.shapes import ITEMS, LEAF, MAP, STRUCT, Shape

_ABSENT: Any = object()


def merge(shape: Shape, live: Any, config: Any) -> Any:
    """Return `live` with everything that `config` sets; both must be valid."""
    kind = shape.kind
    if kind == LEAF or (not live and not config):
        return config
    if kind in (STRUCT, MAP):
        return _merge_fields(shape, live, config)
    return _merge_items(shape, live, config)


def _merge_fields(shape: Shape, live: Any, config: Any) -> Any:
    if not isinstance(config, dict) and config is not None:
        return config
    if not isinstance(live, dict):
        return config
    # A shallow copy: parts that the configuration does not name stay shared with the live object until `_unshared`.
    merged: JsonObject = dict(live)
    struct = shape.kind == STRUCT
    for name, value in (config or {}).items():
        before = live.get(name, _ABSENT)
        child = shape.fields[name][1] if struct else shape.items
        merged[name] = value if before is _ABSENT else merge(child, before, value)
    return merged


def _merge_items(shape: Shape, live: Any, config: Any) -> Any:
    theirs = [(shape.element(item), item) for item in live or ()]
    mine = {shape.element(item): item for item in config or ()}
    # Duplicate items cannot be told apart, so the applied item replaces them instead of merging with one.
    matching: dict[str, Any] = {}
    for element, item in theirs:
        matching[element] = _ABSENT if element in matching else item
    merged: list[Any] = []
    for element, item in _order([element for element, _ in theirs], list(mine)):
        if item is None:
            before = matching.get(element, _ABSENT)
            value = mine[element]
            merged.append(value if before is _ABSENT else merge(shape.items, before, value))
        else:
            merged.append(theirs[item][1])
    return merged


def _order(theirs: list[str], mine: list[str]) -> list[tuple[str, int | None]]:
    """Return the merged order of two lists of elements: each with its index in `theirs` if only that list has it."""
    known, wanted = set(theirs), set(mine)
    shared = [element for element in mine if element in known]
    next_shared = 0
    placed: set[str] = set()
    result: list[tuple[str, int | None]] = []
    left = right = 0
    while left < len(theirs) or right < len(mine):
        if left < len(theirs) and right < len(mine):
            element = theirs[left]
            if element == mine[right]:
                result.append((element, None))
                placed.add(element)
                left, right, next_shared = left + 1, right + 1, next_shared + 1
                continue
            if element in wanted and next_shared < len(shared) and shared[next_shared] != element:
                left += 1  # in both lists, placed later
                continue
        if left < len(theirs):
            element = theirs[left]
            if element not in wanted:
                result.append((element, left))
                left += 1
                continue
            if element in placed:
                left += 1
        if right < len(mine):
            element = mine[right]
            result.append((element, None))
            placed.add(element)
            right += 1
            if next_shared < len(shared) and shared[next_shared] == element:
                next_shared += 1
    return result


def without_nulls(shape: Shape, value: Any) -> Any:
    """Return `value` without null fields: a null in a declared field means that the field is absent."""
    kind = shape.kind
    if kind == STRUCT and isinstance(value, dict):
        return {
            name: without_nulls(shape.fields[name][1], item)
            for name, item in value.items()
            if item is not None or _may_be_null(shape, name)
        }
    if kind == MAP and shape.items.kind in (STRUCT, ITEMS) and isinstance(value, dict):
        return {name: without_nulls(shape.items, item) for name, item in value.items()}
    if kind == ITEMS and isinstance(value, list):
        return [without_nulls(shape.items, item) for item in value]
    return value


def _may_be_null(shape: Shape, name: str) -> bool:
    declared = shape.schema.fields.get(name)
    return declared is None or declared.nullable
