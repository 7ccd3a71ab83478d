"""Objects that grow in one field: every list and map of every kind, filled with any number of entries.

The places come from the schemas, so a new kind or field is measured without being named here. The object around a place
is valid, and entries are valid as far as a schema can tell, so that they reach the code after decoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any, Literal, NamedTuple

from tarmac.api.resource import Resource
from tarmac.api.schema import Schema, Type
from tests.cost.bases import base

Filling = Literal["sparse", "equal", "full", "empty"]
"""Different entries with required fields only; equal entries; entries with all their scalars; empty entries."""

FILLINGS: tuple[Filling, ...] = ("sparse", "equal", "full", "empty")
_DEEPEST = 12


class Place(NamedTuple):
    """A list or map in objects of a kind: the steps to it, `0` for the entry of a list and `*` for one of a map."""

    resource: Resource
    path: tuple[str | int, ...]
    schema: Schema

    def __str__(self) -> str:
        steps = "".join("[]" if step in (0, "*") else f".{step}" for step in self.path)
        return f"{self.resource.plural}.{self.resource.group or 'core'}:{steps.lstrip('.')}"


def places(resource: Resource) -> Iterator[Place]:
    """Yield all lists and maps of a kind; recursive types once."""
    for path, schema in _walk(resource.schema, (), frozenset()):
        yield Place(resource, path, schema)


def _walk(
    schema: Schema, path: tuple[str | int, ...], around: frozenset[str]
) -> Iterator[tuple[tuple[str | int, ...], Schema]]:
    if len(path) > _DEEPEST or (schema.name and schema.name in around):
        return
    if schema.type in (Type.LIST, Type.MAP, Type.ANY):
        yield path, schema
        if schema.items is not None:
            yield from _walk(schema.items, (*path, 0 if schema.type is Type.LIST else "*"), around)
    for name, field in schema.fields.items():
        yield from _walk(field, (*path, name), around | {schema.name} if schema.name else around)


def texts(resource: Resource) -> Iterator[Place]:
    """Yield all strings of a kind, and all maps, whose keys are strings."""
    for path, schema in _scalars(resource.schema, (), frozenset()):
        yield Place(resource, path, schema)


_TEXTUAL = (Type.STRING, Type.QUANTITY, Type.INT_OR_STRING, Type.BYTES, Type.TIME, Type.MICRO_TIME, Type.MAP)


def _scalars(
    schema: Schema, path: tuple[str | int, ...], around: frozenset[str]
) -> Iterator[tuple[tuple[str | int, ...], Schema]]:
    if len(path) > _DEEPEST or (schema.name and schema.name in around):
        return
    if schema.type in _TEXTUAL:
        yield path, schema
    if schema.items is not None:
        yield from _scalars(schema.items, (*path, 0 if schema.type is Type.LIST else "*"), around)
    for name, field in schema.fields.items():
        yield from _scalars(field, (*path, name), around | {schema.name} if schema.name else around)


def grown(place: Place, entries: int, filling: Filling, name: str = "grown") -> dict[str, Any]:
    """Return an object with so many entries in one place."""
    return _placed(place, lambda schema: _filled(schema, entries, filling), name)


def lengthened(place: Place, text: str, name: str = "grown") -> dict[str, Any]:
    """Return an object with this text in one place: as the value, or as the one key of a map."""

    def value(schema: Schema) -> Any:
        return {text: _entry(schema.items, 0, "sparse")} if schema.type is Type.MAP and schema.items else text

    return _placed(place, value, name)


def _placed(place: Place, value: Callable[[Schema], Any], name: str) -> dict[str, Any]:
    obj = deepcopy(base(place.resource, name))
    here: Any = obj
    schema = place.resource.schema
    for step, following in zip(place.path, [*place.path[1:], None] if place.path else (), strict=True):
        field = schema.fields[str(step)] if schema.type is Type.OBJECT else schema.items
        assert field is not None
        if following is None:
            _set(here, step, value(field))
            break
        here, schema = _enter(here, step, field, following), field
    return obj


def _enter(here: Any, step: str | int, field: Schema, following: str | int) -> Any:
    wanted: Any = [] if following == 0 else {}
    if isinstance(here, list):
        if not here:
            here.append(_entry(field, 0, "full") if field.type is Type.OBJECT else wanted)
        return here[0]
    inside = here.get(step)
    if not isinstance(inside, type(wanted)):
        made = _entry(field, 0, "sparse") if field.type is Type.OBJECT else wanted
        inside = here[step] = made
    return inside


def _set(here: Any, step: str | int, value: Any) -> None:
    if isinstance(here, list):
        here[:] = [value]
    else:
        here[step] = value


def _filled(schema: Schema, entries: int, filling: Filling) -> Any:
    if schema.type is Type.ANY:
        return {f"f:k{number}": {} for number in range(entries)}
    items = schema.items
    assert items is not None
    if schema.type is Type.MAP:
        return {f"k{number}": _entry(items, number, filling) for number in range(entries)}
    return [_entry(items, number, filling) for number in range(entries)]


def _entry(schema: Schema, number: int, filling: Filling) -> Any:
    number = 0 if filling == "equal" else number
    if filling == "empty":
        return {Type.OBJECT: {}, Type.MAP: {}, Type.LIST: []}.get(schema.type, "")
    if schema.type is Type.OBJECT:
        wanted = [name for name, field in schema.fields.items() if _is_wanted(schema, name, field, filling)]
        return {name: _entry_field(name, schema.fields[name], number, filling) for name in wanted}
    return _entry_field("", schema, number, filling)


def _is_wanted(schema: Schema, name: str, field: Schema, filling: Filling) -> bool:
    if name in schema.required or name in ("name", "key", "image"):
        return True
    return filling != "sparse" and field.type not in (Type.OBJECT, Type.MAP, Type.LIST, Type.ANY)


def _entry_field(name: str, schema: Schema, number: int, filling: Filling) -> Any:
    if schema.enum:
        return schema.enum[0]
    if schema.type in (Type.OBJECT, Type.MAP, Type.LIST, Type.ANY):
        if schema.type is Type.OBJECT:
            return _entry(schema, number, "sparse")
        return [] if schema.type is Type.LIST else {}
    return _scalar(name, schema, number)


_TEXTS = {
    "operator": "Exists",
    "topologyKey": "example.org/k{0}",
    "effect": "NoSchedule",
    "whenUnsatisfiable": "DoNotSchedule",
    "protocol": "TCP",
    "mountPath": "/m{0}",
    "uid": "u{0}",
    "image": "registry.example/app:{0}",
    "apiGroup": "rbac.authorization.k8s.io",
    "kind": "ServiceAccount",
}
_ADDRESSES = ("cidr", "ip", "podIP", "hostIP", "address", "except", "addresses")


def _scalar(name: str, schema: Schema, number: int) -> Any:
    if schema.type in (Type.INTEGER, Type.NUMBER, Type.INT_OR_STRING):
        return number % 60_000 + 1
    if schema.type is Type.BOOLEAN:
        return False
    if schema.type is Type.QUANTITY:
        return str(number)
    if schema.type is Type.BYTES:
        return "eHh4"
    if schema.type in (Type.TIME, Type.MICRO_TIME):
        return "2026-11-15T12:00:00.000000Z" if schema.type is Type.MICRO_TIME else "2026-11-15T12:00:00Z"
    if name in _ADDRESSES:
        return f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return _TEXTS.get(name, "x{0}").format(number)
