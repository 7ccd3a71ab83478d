"""Computes field sets from objects.

`applied` returns the fields that an Apply manager owns of a configuration: leaves, list items, keys of maps. `whole`
returns the fields that an Update manager owns of a value it adds: every path, containers included. That is why
`f:labels` has a "." under an Update manager only. (For values that an Update manager changes see `comparing`.)

List items that are not unique are owned as one: the element is a leaf, and the contents of the items have no owner. All
sets come in canonical order.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tarmac.server.patch.elements import BadElement, value_order
from tarmac.server.patch.fieldset import LEAF as MEMBER
from tarmac.server.patch.fieldset import SELF, FieldSet
from tarmac.server.patch.shapes import ITEMS, LEAF, MAP, STRUCT, Shape


def applied(shape: Shape, value: Any) -> FieldSet:
    """Return the claimed paths below a value. Its container decides if the value's own path is claimed too."""
    kind = shape.kind
    if kind == LEAF or not value:
        return MEMBER
    if kind == STRUCT and type(value) is dict:
        return _applied_fields(shape, value)
    if kind == MAP and type(value) is dict:
        items = shape.items
        return {"f:" + key: _owned(applied(items, value[key])) for key in sorted(value)}
    if type(value) is list:
        items = shape.items
        found: FieldSet = {}
        for element, members in grouped(shape, value):
            found[element] = _owned(applied(items, members[0])) if len(members) == 1 else MEMBER
        return found
    return MEMBER


def _applied_fields(shape: Shape, value: dict[str, Any]) -> FieldSet:
    fields, declared = shape.fields, shape.schema.fields
    found: FieldSet = {}
    for name in sorted(value):
        element, child = fields[name]
        item = value[name]
        below = applied(child, item)
        if below:
            found[element] = below if name in declared else _owned(below)
        elif name not in declared or _claims_itself(child, item):
            found[element] = MEMBER
    return found


def _claims_itself(shape: Shape, value: Any) -> bool:
    """Return whether a value without claimed paths below it is claimed itself: leaves, nulls and empty objects are."""
    if shape.kind == LEAF or value is None:
        return True
    return shape.kind in (STRUCT, MAP) and (not value or not isinstance(value, dict))


def _owned(below: FieldSet) -> FieldSet:
    return {SELF: MEMBER, **below} if below else MEMBER


def whole(shape: Shape, value: Any) -> FieldSet:
    """Return the node of a new value: its own path and every path below."""
    kind = shape.kind
    if kind == LEAF or not value:
        return MEMBER
    if kind == STRUCT:
        names = tuple(value)
        outline, containers = shape.outlines.get(names) or shape.outline(names)
        if not containers:
            return outline
        node = outline.copy()
        for name, element, child in containers:
            node[element] = whole(child, value[name])
        return node
    if kind == MAP:
        return _whole_map(shape.items, value)
    return _whole_list(shape, value)


def _whole_list(shape: Shape, values: list[Any]) -> FieldSet:
    node: FieldSet = {SELF: MEMBER}
    items = shape.items
    if shape.kind == ITEMS:
        # Fast path for nearly every list: objects with all their keys, of one type, without duplicates.
        try:
            keyed = {shape.key_of(item): item for item in values}
            if len(keyed) == len(values):
                # Keys of different types cannot be sorted: the TypeError leads to the slow path, which has an order
                # for them.
                for key in sorted(keyed):
                    node[shape.spelled[key]] = whole(items, keyed[key])
                return node
        except (KeyError, TypeError):
            node = {SELF: MEMBER}
    for element, members in grouped(shape, values):
        node[element] = whole(items, members[0]) if len(members) == 1 else MEMBER
    return node


def _whole_map(items: Shape, value: Any) -> FieldSet:
    if type(value) is not dict:
        return MEMBER  # free-form: a scalar or a list
    node: FieldSet = {SELF: MEMBER}
    if items.kind == LEAF:
        node.update(dict.fromkeys(["f:" + key for key in sorted(value)], MEMBER))
    else:
        for key in sorted(value):
            node["f:" + key] = whole(items, value[key])
    return node


def grouped(shape: Shape, values: list[Any]) -> Iterable[tuple[str, list[Any]]]:
    """Return the items by element, in the canonical order of elements."""
    groups = by_element(shape, values)
    if len(groups) < 2:
        return groups.items()
    return sorted(groups.items(), key=_by_key(shape) if shape.kind == ITEMS else _by_value)


def by_element(shape: Shape, values: list[Any]) -> dict[str, list[Any]]:
    """Return the items by element, in the order of the list. Items without an element are omitted (no owner)."""
    groups: dict[str, list[Any]] = {}
    element_of = shape.element
    for item in values:
        try:
            element = element_of(item)
        except BadElement:
            continue
        if element in groups:
            groups[element].append(item)
        else:
            groups[element] = [item]
    return groups


def _by_value(group: tuple[str, list[Any]]) -> tuple[Any, ...]:
    return value_order(group[1][0])


def _by_key(shape: Shape) -> Any:
    keys, defaults = shape.keys, shape.defaults
    if len(keys) == 1:
        key = keys[0]
        return lambda group: value_order(group[1][0].get(key, defaults.get(key)))

    def by_keys(group: tuple[str, list[Any]]) -> tuple[Any, ...]:
        item = group[1][0]
        return tuple(
            (key, *value_order(item[key] if key in item else defaults[key]))
            for key in keys
            if key in item or defaults.get(key) is not None
        )

    return by_keys
