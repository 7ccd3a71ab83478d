"""Sets of field paths, as managedFields carries them.

A `FieldSet` is a dict from path element (see `elements`) to the set of paths below it: exactly the JSON of FieldsV1, so
reading and writing one costs nothing. A child dict means:

    {}                      the path is in the set, nothing below it is
    {".": {}, "f:a": {}}    the path is in the set, and so is `a` below it
    {"f:a": {}}             only `a` below it is in the set

Sets are values: no function changes its arguments, and results may share parts with them, so callers must not modify
them either. Nodes that hold no path do not exist. Only `canonical` cares for the order of elements.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tarmac.server.patch import elements

FieldSet = dict[str, Any]

LEAF: FieldSet = {}
"""The set below a path that is itself a member and has no members below it. Shared; never changed."""

_MAX_DEPTH = 200
SELF = "."


def is_member(node: FieldSet) -> bool:
    """Return whether the node's own path is in the set."""
    return not node or SELF in node


def members(fields: FieldSet, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield every path in the set, level by level within a node: its own members first, then those below them."""
    for element, node in fields.items():
        if element != SELF and is_member(node):
            yield (*path, element)
    for element, node in fields.items():
        if element != SELF and node:
            yield from members(node, (*path, element))


def of_paths(*paths: tuple[str, ...]) -> FieldSet:
    """Return the set of exactly these paths."""
    result: FieldSet = {}
    for path in paths:
        single = LEAF
        for element in reversed(path):
            single = {element: single}
        result = union(result, single)
    return result


def has(fields: FieldSet, path: tuple[str, ...]) -> bool:
    """Return whether a path is in the set."""
    node: FieldSet | None = fields
    for element in path:
        node = node.get(element)
        if node is None:
            return False
    return bool(path) and is_member(node)


def _node(member: bool, below: FieldSet) -> FieldSet | None:
    """Build a node from its parts; None when it would hold no path."""
    if not below:
        return LEAF if member else None
    return {SELF: LEAF, **below} if member else below


def _below(node: FieldSet) -> FieldSet:
    if SELF not in node:
        return node
    return {element: child for element, child in node.items() if element != SELF}


def union(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the paths in either set."""
    if not left or not right:
        return left or right
    result = dict(left)
    for element, node in right.items():
        mine = result.get(element)
        if mine is None or mine is node:
            result[element] = node
        elif element != SELF:
            below = union(_below(mine), _below(node))
            joined = _node(is_member(mine) or is_member(node), below)
            result[element] = LEAF if joined is None else joined
    return result


def covers(fields: FieldSet, others: FieldSet) -> bool:
    """Return whether the set contains all of `others`. False may also mean undecided."""
    for element, node in others.items():
        mine = fields.get(element)
        if mine is None or not (covers(mine, node) if node else is_member(mine)):
            return False
    return True


def difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the paths in `left` but not in `right`. A parent in `right` does not remove its children."""
    if not left or not right:
        return left
    result: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None or (not node and not is_member(other)):
            result[element] = node
        elif node:
            member = is_member(node) and not is_member(other)
            kept = _node(member, difference(_below(node), _below(other)))
            if kept is not None:
                result[element] = kept
    return result


def recursive_difference(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the paths of `left` that neither are in `right` nor lie below a path in `right`."""
    if not left or not right:
        return left
    result: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None:
            result[element] = node
        elif not is_member(other):
            kept = _node(is_member(node), recursive_difference(_below(node), other))
            if kept is not None:
                result[element] = kept
    return result


def intersection(left: FieldSet, right: FieldSet) -> FieldSet:
    """Return the paths in both sets."""
    result: FieldSet = {}
    for element, node in left.items():
        other = right.get(element)
        if other is None or element == SELF:
            continue
        kept = _node(is_member(node) and is_member(other), intersection(_below(node), _below(other)))
        if kept is not None:
            result[element] = kept
    return result


def leaves(fields: FieldSet) -> FieldSet:
    """Return the members with no member below them."""
    return {element: leaves(node) for element, node in fields.items() if element != SELF}


def canonical(fields: FieldSet) -> FieldSet:
    """Return the same set with elements in the order in which Kubernetes writes them."""
    names = list(fields)
    if len(names) > 1:
        # Only keys and values need parsing to be ordered; fields and "." sort as they are.
        if any(name[0] in "kvi" for name in names):
            names.sort(key=elements.order)
        else:
            names.sort()
    return {name: canonical(fields[name]) if fields[name] else LEAF for name in names}


def parse(fields: Any) -> FieldSet:
    """Parse a FieldsV1 sent by a client. Raises `elements.BadElement`."""
    return _below(_parse_node(fields, 0))


def _parse_node(fields: Any, depth: int) -> FieldSet:
    if not isinstance(fields, dict):
        raise elements.BadElement("a field set must be an object")
    if depth > _MAX_DEPTH:
        raise elements.BadElement("a field set goes deeper than any object")
    node: FieldSet = {}
    for text, below in fields.items():
        element = SELF if text == SELF else elements.canonical(text)
        if element is not None:
            # Two spellings of one element are rare; compute a union only for those.
            child = LEAF if element == SELF else _parse_node(below, depth + 1)
            node[element] = union({element: node[element]}, {element: child})[element] if element in node else child
    return LEAF if len(node) == 1 and SELF in node else node
