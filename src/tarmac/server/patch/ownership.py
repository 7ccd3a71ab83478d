"""From objects to field sets.

    applied(shape, value)         what somebody who sends `value` claims: its leaves, list items and map keys
    whole(shape, value)           every path of `value`, containers included
    compare(shape, old, new)      what changed (added or modified) and what was removed

`applied` is the set of an Apply manager, `compare` that of an Update manager; creation is a comparison with the kind's
empty object. A named field that holds a container belongs to nobody in the first and to whoever adds it in the second:
that is why `f:labels` has a "." under an Update manager only.

List items that are not unique are owned as one: the element is a leaf and what the items hold belongs to nobody.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from tarmac.server.patch.elements import BadElement, value_order
from tarmac.server.patch.fieldset import LEAF as MEMBER
from tarmac.server.patch.fieldset import SELF, FieldSet
from tarmac.server.patch.shapes import ITEMS, LEAF, MAP, STRUCT, Shape

_ABSENT: Any = object()


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
        elif item or child.kind in (LEAF, STRUCT, MAP) or item is None or name not in declared:
            # An empty list of items claims nothing; an empty object, a null and every leaf do.
            found[element] = MEMBER
    return found


def _owned(below: FieldSet) -> FieldSet:
    return {SELF: MEMBER, **below} if below else MEMBER


def whole(shape: Shape, value: Any) -> FieldSet:
    """The node of a value that was not there before: its own path and every path below."""
    kind = shape.kind
    if kind == LEAF or not value:
        return MEMBER
    node: FieldSet = {SELF: MEMBER}
    if kind == STRUCT:
        fields = shape.fields
        for name in sorted(value):
            element, child = fields[name]
            node[element] = whole(child, value[name]) if child.kind else MEMBER
    elif kind == MAP:
        if type(value) is not dict:
            return MEMBER
        items = shape.items
        for key in sorted(value):
            node["f:" + key] = whole(items, value[key]) if items.kind else MEMBER
    elif kind == ITEMS:
        items = shape.items
        for element, members in _grouped(shape, value):
            node[element] = whole(items, members[0]) if len(members) == 1 else MEMBER
    else:
        node.update((element, MEMBER) for element, _ in _grouped(shape, value))
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

    def order(group: tuple[str, list[Any]]) -> tuple[Any, ...]:
        item = group[1][0]
        return tuple(
            (key, *value_order(item[key] if key in item else defaults[key]))
            for key in keys
            if key in item or defaults.get(key) is not None
        )

    return order


def compare(shape: Shape, old: Any, new: Any) -> Comparison:
    """What became different from `old` to `new`, both present."""
    changed, removed = _compare(shape, old, new)
    # The object as a whole is nobody's, so its own membership is dropped.
    return Comparison(
        {element: node for element, node in (changed or MEMBER).items() if element != SELF},
        {element: node for element, node in (removed or MEMBER).items() if element != SELF},
    )


def _compare(shape: Shape, old: Any, new: Any) -> tuple[FieldSet | None, FieldSet | None]:
    """The nodes of what changed and what was removed at and below a path that both values have."""
    if old == new:
        return None, None
    kind = shape.kind
    if kind == LEAF or (not old and not new):
        return MEMBER, None
    container = dict if kind in (STRUCT, MAP) else list
    if not isinstance(old, container) and old is not None:
        return whole(shape, new), None
    if not isinstance(new, container) and new is not None:
        return MEMBER, {element: node for element, node in whole(shape, old).items() if element != SELF} or None
    compare_below: Any = _compare_fields if container is dict else _compare_items
    return compare_below(shape, old or container(), new or container())


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
    return changed or None, removed or None


def _record(element: str, nodes: tuple[FieldSet | None, FieldSet | None], changed: FieldSet, removed: FieldSet) -> None:
    if nodes[0] is not None:
        changed[element] = nodes[0]
    if nodes[1] is not None:
        removed[element] = nodes[1]


def _compare_items(shape: Shape, old: list[Any], new: list[Any]) -> tuple[FieldSet | None, FieldSet | None]:
    before, after = dict(_grouped(shape, old)), dict(_grouped(shape, new))
    changed: FieldSet = {}
    removed: FieldSet = {}
    for element in before | after:
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
