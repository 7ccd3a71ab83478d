"""From objects to field sets.

    applied(shape, value)         what somebody who sends `value` claims: its leaves, list items and map keys
    whole(shape, value)           every path of `value`, containers included
    compare(shape, old, new)      what changed (added or modified, canonical) and what was removed

`applied` is the set of an Apply manager, `compare` that of an Update manager; creation is a comparison with the kind's
empty object. A named field that holds a container belongs to nobody in the first and to whoever adds it in the second:
that is why `f:labels` has a "." under an Update manager only.

List items that are not unique are owned as one: the element is a leaf and what the items hold belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import msgspec

from tarmac.server.patch.elements import BadElement, order, value_order
from tarmac.server.patch.fieldset import LEAF as MEMBER
from tarmac.server.patch.fieldset import SELF, FieldSet
from tarmac.server.patch.shapes import FREE, ITEMS, LEAF, MAP, STRUCT, Shape

_ABSENT: Any = object()
_encode = msgspec.json.Encoder(order="sorted").encode


class Comparison(NamedTuple):
    """How one object differs from an earlier one."""

    changed: FieldSet
    removed: FieldSet


def applied(shape: Shape, value: Any) -> FieldSet:
    """The paths that a configuration claims."""
    return _applied(shape, value)


def _applied(shape: Shape, value: Any) -> FieldSet:
    """Paths below a value; the caller decides on the value's own path."""
    kind = shape.kind
    if kind == LEAF or not value:
        return MEMBER
    if kind == STRUCT and type(value) is dict:
        return _applied_fields(shape, value)
    if kind == MAP and type(value) is dict:
        items = shape.items
        return {"f:" + key: _owned(_applied(items, value[key])) for key in sorted(value)}
    if type(value) is list:
        items = shape.items
        found: FieldSet = {}
        for element, members in _grouped(shape, value):
            found[element] = _owned(_applied(items, members[0])) if len(members) == 1 else MEMBER
        return found
    return MEMBER


def _applied_fields(shape: Shape, value: dict[str, Any]) -> FieldSet:
    fields, declared = shape.fields, shape.schema.fields
    found: FieldSet = {}
    for name in sorted(value):
        element, child = fields[name]
        item = value[name]
        below = _applied(child, item)
        if below:
            found[element] = below if name in declared else _owned(below)
        elif name not in declared or _claims_itself(child, item):
            found[element] = MEMBER
    return found


def _claims_itself(shape: Shape, value: Any) -> bool:
    """Whether a value below which nothing is claimed is claimed itself: leaves, nulls and empty objects are."""
    if shape.kind == LEAF or value is None:
        return True
    return shape.kind in (STRUCT, MAP) and (not value or not isinstance(value, dict))


def _owned(below: FieldSet) -> FieldSet:
    return {SELF: MEMBER, **below} if below else MEMBER


def whole(shape: Shape, value: Any) -> FieldSet:
    """The node of a value that was not there before: its own path and every path below."""
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
        # Nearly every list is one of objects that have all their keys, of one type, no two alike.
        try:
            keyed = {shape.key_of(item): item for item in values}
            if len(keyed) == len(values):
                for key in sorted(keyed):
                    node[shape.spelled[key]] = whole(items, keyed[key])
                return node
        except (KeyError, TypeError):
            node = {SELF: MEMBER}
    for element, members in _grouped(shape, values):
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


def _grouped(shape: Shape, values: list[Any]) -> Iterable[tuple[str, list[Any]]]:
    """Items by element, in the canonical order of elements. An item that has no element belongs to nobody."""
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
    if len(groups) < 2:
        return groups.items()
    return sorted(groups.items(), key=_by_key(shape) if shape.kind == ITEMS else _by_value)


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


def compare(shape: Shape, old: Any, new: Any) -> Comparison:
    """What became different from `old` to `new`, both present."""
    changed, removed = _compare(shape, old, new)
    return Comparison(changed or MEMBER, removed or MEMBER)


def _compare(shape: Shape, old: Any, new: Any) -> tuple[FieldSet | None, FieldSet | None]:
    """The nodes of what changed and what was removed at and below a path that both values have."""
    if old == new and (shape.items is not FREE or _same_json(old, new)):
        return None, None
    kind = shape.kind
    if kind == LEAF or (not old and not new):
        return MEMBER, None
    container = dict if kind in (STRUCT, MAP) else list
    if not isinstance(old, container) and old is not None:
        return whole(shape, new), None
    if not isinstance(new, container) and new is not None:
        return MEMBER, _below(whole(shape, old))
    if not old:
        return _below(whole(shape, new)), None
    if not new:
        return None, _below(whole(shape, old))
    compare_below: Any = _compare_fields if container is dict else _compare_items
    return compare_below(shape, old, new)


def _same_json(old: Any, new: Any) -> bool:
    """Whether equal free-form values are so in JSON too, where true is not 1. Objects are left to closer inspection."""
    if isinstance(old, list):
        return _encode(old) == _encode(new)
    if isinstance(old, dict):
        return not old
    return isinstance(old, bool) == isinstance(new, bool)


def _below(node: FieldSet) -> FieldSet | None:
    """A node without its own path, which may be a leaf's."""
    if SELF not in node:
        return None
    below = node.copy()
    del below[SELF]
    return below


def _compare_fields(shape: Shape, old: dict[str, Any], new: dict[str, Any]) -> tuple[FieldSet | None, FieldSet | None]:
    changed: FieldSet = {}
    removed: FieldSet = {}
    struct = shape.kind == STRUCT
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        if before is value:
            continue
        element, child = shape.fields[name] if struct else ("f:" + name, shape.items)
        if before is _ABSENT:
            changed[element] = whole(child, value)
        else:
            _record(element, _compare(child, before, value), changed, removed)
    for name, value in old.items():
        if name not in new:
            element, child = shape.fields[name] if struct else ("f:" + name, shape.items)
            removed[element] = whole(child, value)
    return _sorted(changed), removed or None


def _sorted(fields: FieldSet) -> FieldSet | None:
    if len(fields) < 2:
        return fields or None
    return {element: fields[element] for element in sorted(fields)}


def _record(element: str, nodes: tuple[FieldSet | None, FieldSet | None], changed: FieldSet, removed: FieldSet) -> None:
    if nodes[0] is not None:
        changed[element] = nodes[0]
    if nodes[1] is not None:
        removed[element] = nodes[1]


def _compare_items(shape: Shape, old: list[Any], new: list[Any]) -> tuple[FieldSet | None, FieldSet | None]:
    before, after = dict(_grouped(shape, old)), dict(_grouped(shape, new))
    changed: FieldSet = {}
    removed: FieldSet = {}
    for element in sorted(before | after, key=order):
        nodes = _compare_group(shape.items, before.get(element, []), after.get(element, []))
        _record(element, nodes, changed, removed)
    return changed or None, removed or None


def _compare_group(shape: Shape, old: list[Any], new: list[Any]) -> tuple[FieldSet | None, FieldSet | None]:
    """Items that share one element. More than one on a side makes that side a single leaf."""
    if len(old) < 2 and len(new) < 2:
        if not old:
            return whole(shape, new[0]), None
        if not new:
            return None, whole(shape, old[0])
        return _compare(shape, old[0], new[0])
    if len(old) > 1 and len(new) > 1:
        return (None if old == new else MEMBER), None
    if len(old) > 1:
        return (whole(shape, new[0]) if new else None), MEMBER
    return MEMBER, (whole(shape, old[0]) if old else None)
