"""Describes findings and their paths in Kubernetes' words. Runs only when there is a finding.

Rules record containers, not paths; a path is computed by searching the object for the container.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.decode.rules import Mismatch
from tarmac.api.schema import Json, Schema, Type
from tarmac.base.fielderrors import FieldErrors

Path = tuple[str | int, ...]


def locate(root: Json) -> dict[int, Path]:
    """Return the path of every container in a tree, by the container's identity."""
    found: dict[int, Path] = {}
    waiting: list[tuple[Json, Path]] = [(root, ())]
    while waiting:
        value, path = waiting.pop()
        if isinstance(value, dict):
            found[id(value)] = path
            waiting += [(item, (*path, key)) for key, item in value.items()]
        elif isinstance(value, list):
            found[id(value)] = path
            waiting += [(item, (*path, index)) for index, item in enumerate(value)]
    return found


def show(path: Path) -> str:
    """Return `spec.containers[0].name`."""
    text = ""
    for step in path:
        text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
    return text


def go_text(found: Mismatch, root: Json, schema: Schema) -> str:
    """Return a mismatch as Go's decoder words it, for an object of Kubernetes' own kinds."""
    if found.why is not None:
        return found.why
    path = (*locate(root)[id(found.container)], found.key)
    struct, names, node = "", list[str](), schema
    for step in path:
        if node.type is Type.OBJECT and isinstance(step, str):
            struct = (node.name or "").rpartition(".")[2]
            names += [node.embedded[step], step] if step in node.embedded else [step]
            node = node.fields[step]
        elif node.items is not None:
            node = node.items
    what = _go_value(found.value, node)
    return f"json: cannot unmarshal {what} into Go struct field {struct}.{'.'.join(names)} of type {_go_type(node)}"


_INTEGERS = {Type.INTEGER, Type.INT_OR_STRING}
_GO_TYPES = {Type.TIME: "string", Type.MICRO_TIME: "string", Type.INT_OR_STRING: "int32"}


def _go_type(node: Schema) -> str:
    if node.type is Type.OBJECT:
        return ".".join((node.name or "").split(".")[-2:])
    return _GO_TYPES.get(node.type) or node.go_type or node.type.value


def _go_value(value: Json, node: Schema) -> str:
    if type(value) in (int, float):
        return f"number {value}" if node.type in _INTEGERS else "number"
    return go_kind(value)


def go_kind(value: Json) -> str:
    """Return Go's name for a JSON value of the wrong type."""
    names: dict[type, str] = {
        bool: "bool",
        str: "string",
        dict: "object",
        list: "array",
        int: "number",
        float: "number",
    }
    return names.get(type(value), "null")


_JSON_NAMES: dict[type, str] = {
    bool: "boolean",
    str: "string",
    dict: "object",
    list: "array",
    int: "integer",
    float: "number",
    type(None): "null",
}
_WANTED = {
    Type.OBJECT: "object",
    Type.MAP: "object",
    Type.LIST: "array",
    Type.INTEGER: "integer",
    Type.NUMBER: "number",
    Type.BOOLEAN: "boolean",
    Type.INT_OR_STRING: "integer,string",
    Type.QUANTITY: "integer,string",
    Type.BYTES: "byte",
    Type.TIME: "date-time",
    Type.MICRO_TIME: "date-time",
}


def add_mismatches(mismatches: list[Mismatch], root: Json, errors: FieldErrors) -> None:
    """Add mismatches as field errors, as a CRD's schema would report them."""
    where = locate(root)
    for found in mismatches:
        path = show((*where[id(found.container)], found.key))
        if found.why is not None and found.schema.type is Type.QUANTITY:
            errors.invalid(path, found.value, found.why)
            continue
        wanted = _WANTED.get(found.schema.type, "string")
        given: Any = found.value if found.why is not None else _number_name(found.value)
        errors.type_invalid(path, given, f'{path} in body must be of type {wanted}: "{given}"')


def _number_name(value: Json) -> str:
    too_large = type(value) is int and not -(2**63) <= value < 2**63
    return "number" if too_large else _JSON_NAMES[type(value)]
