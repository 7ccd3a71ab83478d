"""Merging an applied configuration into a live object, and taking fields out of one again.

`merge` only adds and overwrites. Lists of items are put into an order that keeps both sides' order where they agree and
follows the configuration where they do not; items only one side knows stay next to their neighbours on that side.
`remove` drops every path of a set; of a container that this leaves empty a null stays, until `without_nulls`.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.server.patch.elements import field_element
from tarmac.server.patch.fieldset import LEAF as MEMBER
from tarmac.server.patch.fieldset import SELF, FieldSet, is_member
from tarmac.server.patch.shapes import FREE, ITEMS, LEAF, MAP, STRUCT, Shape

_ABSENT: Any = object()


def merge(shape: Shape, live: Any, config: Any) -> Any:
    """`live` with everything that `config` sets; both must be valid."""
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
    # Items that are there twice cannot be told apart, so what is applied replaces instead of merging with them.
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
    """The merged order of two lists of elements: each with its index in `theirs` if only they have it."""
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
                left += 1  # shared, but it has its turn later
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


def remove(shape: Shape, value: Any, fields: FieldSet) -> Any:
    """`value` without the paths of a set; None when nothing is left of a container."""
    kind = shape.kind
    if kind in (STRUCT, MAP) and isinstance(value, dict):
        return dict(_kept_fields(shape, value, fields)) or None
    if kind == LEAF or not isinstance(value, list):
        # An atomic list or map goes as a whole, a scalar stays: only its own path can remove it.
        return None if isinstance(value, dict | list) else value
    return _kept_items(shape, value, fields) or None


def _kept_fields(shape: Shape, value: JsonObject, fields: FieldSet) -> list[tuple[str, Any]]:
    kept: list[tuple[str, Any]] = []
    for name, item in value.items():
        element, child = shape.fields[name] if shape.kind == STRUCT else (field_element(name), shape.items)
        node = fields.get(element)
        if node is None:
            kept.append((name, item))
        elif not is_member(node):
            kept.append((name, remove(child, item, node)))
    return kept


def _kept_items(shape: Shape, value: list[Any], fields: FieldSet) -> list[Any]:
    kept: list[Any] = []
    for item in value:
        node = fields.get(shape.element(item))
        if node is None:
            kept.append(item)
        elif not is_member(node):
            kept.append(remove(shape.items, item, node))
    return kept


def without_nulls(shape: Shape, value: Any) -> Any:
    """`value` without null fields: a declared field that is null is a field that is not there."""
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


def with_named_fields(shape: Shape, fields: FieldSet) -> FieldSet:
    """A set that also holds the declared fields above its members, so that removing the last leaf removes them."""
    result: FieldSet = {}
    for element, node in fields.items():
        if not node:
            result[element] = node
            continue
        child, declared = _child(shape, element)
        below = with_named_fields(child, node)
        result[element] = {SELF: MEMBER, **below} if declared and SELF not in below else below
    return result


def _child(shape: Shape, element: str) -> tuple[Shape, bool]:
    """The shape below an element, and whether the element is a declared field."""
    if element.startswith("f:"):
        name = element[2:]
        if shape.kind == STRUCT:
            return shape.fields[name][1], name in shape.schema.fields
        if shape.kind == MAP:
            return shape.items, False
    elif element.startswith("k:") and shape.kind == ITEMS:
        return shape.items, False
    return FREE, False
