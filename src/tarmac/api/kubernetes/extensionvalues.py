"""Preserves the values of Tarmac's own fields when a client that does not know them writes an object.

Such a client reads an object, drops unknown fields, and writes the rest back. `carry_over` restores every own field
that the new object lacks and the stored one has, wherever both have the same item: items of lists are matched by their
key, else by their name or type. It follows the data, so objects without own fields cost one check.
"""

from __future__ import annotations

from tarmac.api.kubernetes.extensionfields import OWN_FIELDS
from tarmac.api.schema import Json, JsonObject, Schema, Type

_OWN = {name: tuple(field.name for field in fields) for name, fields in OWN_FIELDS.items()}
_MARKS = tuple({f'"{field}":'.encode() for fields in _OWN.values() for field in fields})


def has_own_fields(stored: bytes) -> bool:
    """Return True if the text of a stored object may have an own field.

    False positives are possible, misses are not.
    """
    return any(mark in stored for mark in _MARKS)


def carry_over(schema: Schema, new: JsonObject, old: JsonObject) -> None:
    """Restore the missing own fields of `new`, in place."""
    for field in _OWN.get(schema.name or "", ()):
        if field in old and not new.get(field):
            new[field] = old[field]
    for field, before in old.items():
        node = schema.fields.get(field)
        if node is not None and isinstance(before, dict | list):
            _carry_field(node, new, field, before)


def _carry_field(node: Schema, new: JsonObject, field: str, before: Json) -> None:
    if node.type is Type.OBJECT:
        inner: JsonObject = new.get(field) or {}
        carry_over(node, inner, before)
        if inner:
            new[field] = inner
    elif node.type is Type.LIST and node.items is not None and node.items.type is Type.OBJECT:
        _carry_items(node, new.get(field) or [], before)


def _carry_items(node: Schema, items: list[JsonObject], before: list[JsonObject]) -> None:
    schema = node.items
    assert schema is not None
    key = next((key for key in (*node.list_map_keys, "name", "type") if key in schema.fields), None)
    if key is None:
        return
    known = {item.get(key): item for item in before}
    for item in items:
        if (was := known.get(item.get(key))) is not None:
            carry_over(schema, item, was)
