"""Shapes: schemas reduced to the rules of merging and ownership.

A `Shape` is a `Schema` node reduced to ownership: is a value owned as a whole (LEAF), field by field (STRUCT), key by
key (MAP), or item by item (ITEMS by key, SET by value)? Free-form JSON is owned key by key with lists as a whole,
except where the schema calls it atomic. Shapes are created on first use and cached by schema; a recursive schema gives
a recursive shape.
"""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, Final, NamedTuple

from tarmac.api.schema import JsonObject, Schema, Type
from tarmac.server.patch import elements
from tarmac.server.patch.fieldset import LEAF as MEMBER
from tarmac.server.patch.fieldset import SELF, FieldSet

LEAF: Final = 0
STRUCT: Final = 1
MAP: Final = 2
ITEMS: Final = 3
SET: Final = 4

# Clients send few combinations of fields and few names, so results are cached, up to these limits.
_MAX_OUTLINES = 200
_MAX_SPELLED = 1000


class Outline(NamedTuple):
    """The field set of an object with certain fields, up to the contents of its containers."""

    node: FieldSet  # all paths known from the names, in canonical order, the object's own first
    containers: tuple[tuple[str, str, Shape], ...]  # (name, element, shape) of fields that need recursion


class Shape:
    """The rules of ownership and merging for values of one schema node."""

    __slots__ = ("defaults", "fields", "items", "key_of", "keys", "kind", "outlines", "schema", "spelled")

    def __init__(self, schema: Schema, kind: int) -> None:
        self.schema = schema
        self.kind = kind
        self.fields = _Fields(self)  # STRUCT: name -> (element, shape); unknown names are free-form
        self.items: Shape = self  # shape of MAP values and of ITEMS; free-form JSON nests itself
        self.keys = tuple(sorted(schema.list_map_keys))
        self.key_of: Callable[[Any], Any] = itemgetter(*(self.keys or ("",)))
        self.spelled = _Spelled(self.keys)
        self.defaults: JsonObject = {}  # ITEMS: key -> default
        self.outlines: dict[tuple[str, ...], Outline] = {}  # STRUCT: by the field names of an object

    def outline(self, names: tuple[str, ...]) -> Outline:
        """Return the common part of the field sets of all objects of this STRUCT with these fields."""
        found = self.outlines.get(names)
        if found is None:
            if len(self.outlines) >= _MAX_OUTLINES:
                self.outlines.clear()
            found = self.outlines[names] = _outline(self, names)
        return found

    def element(self, item: Any) -> str:
        """Return the path element of an item of an ITEMS or SET list. Raises `elements.BadElement`."""
        if self.kind == SET:
            return _valued(item)
        try:
            return self.spelled[self.key_of(item)]
        except (KeyError, TypeError):
            return self._keyed(item)

    def _keyed(self, item: Any) -> str:
        """Return the element of an irregular item: not an object, or without some of its keys."""
        if not isinstance(item, dict):
            what = "a null element" if item is None else "non-map elements"
            raise elements.BadElement(f"associative list with keys may not have {what}")
        given = {key: item[key] if key in item else self.defaults.get(key) for key in self.keys}
        given = {key: value for key, value in given.items() if key in item or value is not None}
        if not given:
            names = "[" + " ".join(f'"{key}"' for key in self.schema.list_map_keys) + "]"
            raise elements.BadElement(
                f"associative list with keys has an element that omits all key fields {names} "
                "(and doesn't have default values for any key fields)"
            )
        return elements.key_element(given)


class _Spelled(dict[Any, str]):
    """Elements of the items of a list, by the value of their key (a tuple when there are several)."""

    __slots__ = ("_fronts",)

    def __init__(self, keys: tuple[str, ...]) -> None:
        super().__init__()
        # The text before each value is the same in all items, so encode it once; a list may have thousands of items.
        self._fronts = [f"{',' if number else 'k:{'}{elements.encode_value(key)}:" for number, key in enumerate(keys)]

    def __missing__(self, key: Any) -> str:
        if len(self) >= _MAX_SPELLED:
            self.clear()
        encode_value, fronts = elements.encode_value, self._fronts
        if len(fronts) == 1:
            element = self[key] = f"{fronts[0]}{encode_value(key)}}}"
        else:
            parts = [front + encode_value(value) for front, value in zip(fronts, key, strict=True)]
            element = self[key] = "".join(parts) + "}"
        return element


def _outline(shape: Shape, names: tuple[str, ...]) -> Outline:
    node: FieldSet = {SELF: MEMBER}
    containers: list[tuple[str, str, Shape]] = []
    for name in sorted(names):
        element, child = shape.fields[name]
        node[element] = MEMBER
        if child.kind != LEAF:
            containers.append((name, element, child))
    return Outline(node, tuple(containers))


def _valued(item: Any) -> str:
    if isinstance(item, dict):
        raise elements.BadElement("associative list without keys has an element that's a map type")
    if isinstance(item, list):
        raise elements.BadElement("not supported: associative list with lists as elements")
    if item is None:
        raise elements.BadElement("associative list without keys has an element that's an explicit null")
    return elements.value_element(item)


class _Fields(dict[str, tuple[str, Shape]]):
    """Fields of a STRUCT, with shapes created on first use."""

    __slots__ = ("owner",)

    def __init__(self, owner: Shape) -> None:
        super().__init__()
        self.owner = owner

    def __missing__(self, name: str) -> tuple[str, Shape]:
        declared = self.owner.schema.fields.get(name)
        entry = ("f:" + name, FREE if declared is None else shape_of(declared))
        if declared is not None:  # undeclared names are unbounded, so they are not cached
            self[name] = entry
        return entry


_shapes: dict[Schema, Shape] = {}

FREE = Shape(Schema(Type.ANY), MAP)
"""Free-form JSON."""


def shape_of(schema: Schema) -> Shape:
    """Return the shape of a schema node."""
    shape = _shapes.get(schema)
    if shape is None:
        # Cached before it is complete: a recursive schema, such as JSONSchemaProps, finds itself here and does not
        # recurse.
        shape = _shapes[schema] = Shape(schema, _kind(schema))
        _complete(shape)
    return shape


def _kind(schema: Schema) -> int:
    match schema.type:
        case Type.OBJECT if not schema.atomic:
            return STRUCT if schema.fields else MAP
        case Type.MAP if not schema.atomic:
            return MAP
        case Type.ANY if not schema.atomic:
            return MAP
        case Type.LIST if schema.list_type == "map":
            return ITEMS
        case Type.LIST if schema.list_type == "set":
            return SET
        case _:
            return LEAF


def _complete(shape: Shape) -> None:
    schema = shape.schema
    if shape.kind == MAP:
        shape.items = FREE if schema.items is None else shape_of(schema.items)
    elif shape.kind in (ITEMS, SET) and schema.items is not None:
        shape.items = shape_of(schema.items)
        shape.defaults = _key_defaults(schema.items, shape.keys)


def _key_defaults(item: Schema, keys: tuple[str, ...]) -> JsonObject:
    """Return the values of omitted keys: the default, or the zero value that Go writes."""
    declared = {key: item.fields[key].default for key in keys if key in item.fields}
    return {key: item.always.get(key) if default is None else default for key, default in declared.items()}


def empty_object(schema: Schema) -> JsonObject:
    """Return Go's encoding of an empty value, the base that a create is compared with. A new object on every call."""
    return {
        name: empty_object(schema.fields[name]) if zero == {} else zero
        for name, zero in schema.always.items()
        if name in schema.fields
    }
