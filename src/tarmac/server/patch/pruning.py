"""Removes fields that a manager applied last time, does not apply any more, and no other manager owns.

Field sets of appliers do not hold the named fields above their leaves, so these are added first: with the last label an
applier set, `labels` itself goes. Then fields that other managers own, and fields that never had an owner, are taken
out of the set to remove.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.server.patch.elements import field_element
from tarmac.server.patch.fieldset import LEAF as MEMBER
from tarmac.server.patch.fieldset import SELF, FieldSet, difference, intersection, is_member, union
from tarmac.server.patch.ownership import applied
from tarmac.server.patch.shapes import FREE, ITEMS, LEAF, MAP, STRUCT, Shape


def prune(shape: Shape, merged: JsonObject, last: FieldSet, owned: FieldSet) -> JsonObject:
    """Return `merged` without the paths of `last` that no manager owns any more.

    `owned` holds the fields of all managers, the applier included.
    """
    if not difference(last, owned):
        return merged
    last, owned = _with_named(shape, last), _with_named(shape, owned)
    everything = _paths(shape, merged)
    kept = union(_paths(shape, _remove(shape, merged, last)), owned)
    pruned = _remove(shape, merged, difference(everything, kept))
    # Remove only fields that the manager owned: a container may hold fields without an owner.
    gone = difference(everything, _paths(shape, pruned))
    return _remove(shape, merged, intersection(gone, last)) or {}


def _paths(shape: Shape, value: Any) -> FieldSet:
    return _with_named(shape, applied(shape, value))


def _remove(shape: Shape, value: Any, fields: FieldSet) -> Any:
    """Return `value` without the paths of a set; None when a container becomes empty."""
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
            kept.append((name, _remove(child, item, node)))
    return kept


def _kept_items(shape: Shape, value: list[Any], fields: FieldSet) -> list[Any]:
    kept: list[Any] = []
    for item in value:
        node = fields.get(shape.element(item))
        if node is None:
            kept.append(item)
        elif not is_member(node):
            kept.append(_remove(shape.items, item, node))
    return kept


def _with_named(shape: Shape, fields: FieldSet) -> FieldSet:
    """Return the set plus the declared fields above its members, so that removing the last leaf removes them too."""
    result: FieldSet = {}
    for element, node in fields.items():
        if not node:
            result[element] = node
            continue
        child, declared = _child(shape, element)
        below = _with_named(child, node)
        result[element] = {SELF: MEMBER, **below} if declared and SELF not in below else below
    return result


def _child(shape: Shape, element: str) -> tuple[Shape, bool]:
    """Return the shape below an element, and whether the element is a declared field."""
    if element.startswith("f:"):
        name = element[2:]
        if shape.kind == STRUCT:
            return shape.fields[name][1], name in shape.schema.fields
        if shape.kind == MAP:
            return shape.items, False
    elif element.startswith("k:") and shape.kind == ITEMS:
        return shape.items, False
    return FREE, False
