"""Differences between two versions of an object, as field sets.

Both sets hold paths of containers as well as of leaves: a container that was not there before is added with its whole
contents. A container present on both sides is in neither set, even if its contents changed. Creation is a change from
the kind's empty object.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from tarmac.server.patch.elements import order
from tarmac.server.patch.fieldset import LEAF as MEMBER
from tarmac.server.patch.fieldset import SELF, FieldSet
from tarmac.server.patch.ownership import by_element, whole
from tarmac.server.patch.shapes import FREE, LEAF, MAP, STRUCT, Shape

_ABSENT: Any = object()
_encode = msgspec.json.Encoder(order="sorted").encode

Nodes = tuple[FieldSet | None, FieldSet | None]
"""The changed and the removed paths at and below one path; None for an empty set."""


class Comparison(NamedTuple):
    """The difference between an object and an earlier version of it."""

    changed: FieldSet  # added or modified; in canonical order
    removed: FieldSet


def compare(shape: Shape, old: Any, new: Any) -> Comparison:
    """Compare two values that are both present."""
    changed, removed = _compare(shape, old, new)
    return Comparison(changed or MEMBER, removed or MEMBER)


def _compare(shape: Shape, old: Any, new: Any) -> Nodes:
    """Compare two values of the same path; return the changed and the removed node."""
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
    """Return whether equal free-form values are equal in JSON too, where true is not 1.

    Non-empty objects give False: the comparison of their fields decides.
    """
    if isinstance(old, list):
        return _encode(old) == _encode(new)
    if isinstance(old, dict):
        return not old
    return isinstance(old, bool) == isinstance(new, bool)


def _below(node: FieldSet) -> FieldSet | None:
    """Return a node without its own path, or None for a leaf."""
    if SELF not in node:
        return None
    below = node.copy()
    del below[SELF]
    return below


def _compare_fields(shape: Shape, old: dict[str, Any], new: dict[str, Any]) -> Nodes:
    changed: FieldSet = {}
    removed: FieldSet = {}
    struct = shape.kind == STRUCT
    for name, value in new.items():
        before = old.get(name, _ABSENT)
        # By identity alone: an equal value of another type (1, 1.0, true) may be a change, which `_compare` decides
        # on.
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


def _record(element: str, nodes: Nodes, changed: FieldSet, removed: FieldSet) -> None:
    if nodes[0] is not None:
        changed[element] = nodes[0]
    if nodes[1] is not None:
        removed[element] = nodes[1]


def _compare_items(shape: Shape, old: list[Any], new: list[Any]) -> Nodes:
    before, after = by_element(shape, old), by_element(shape, new)
    changed: FieldSet = {}
    removed: FieldSet = {}
    for element in before | after:
        nodes = _compare_group(shape.items, before.get(element, []), after.get(element, []))
        _record(element, nodes, changed, removed)
    if len(changed) > 1:
        changed = {element: changed[element] for element in sorted(changed, key=order)}
    return changed or None, removed or None


def _compare_group(shape: Shape, old: list[Any], new: list[Any]) -> Nodes:
    """Compare items that share one element. More than one on a side makes that side a single leaf."""
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
