"""Checks an applied configuration against its schema, with structured-merge-diff's messages.

Checked before the merge: types, declared fields, unique keys of list items, and the maximum number of entries. Null is
a valid value of any type.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.decode.limits import MAX_ITEMS
from tarmac.api.schema import Schema, Type
from tarmac.server.patch.elements import BadElement, display, field_element
from tarmac.server.patch.gotext import go_syntax, go_text, go_type
from tarmac.server.patch.shapes import ITEMS, SET, shape_of

Path = tuple["Path", str] | None
"""The location of a value: the path of its container, and its element there. Formatted only for an error."""

Problems = list[tuple[Path, str]]


class Nonconforming(Exception):
    """All violations of the schema found in a value."""

    def __init__(self, problems: Problems) -> None:
        lines = [f"{_spell(path)}: {text}" if path else text for path, text in problems]
        super().__init__(lines[0] if len(lines) == 1 else "\n  ".join(["errors:", *lines]))


class TooMany(Exception):
    """A list or map with too many entries: its path, its size and the maximum."""

    def __init__(self, path: str, count: int, most: int) -> None:
        super().__init__()
        self.path, self.count, self.most = path, count, most


def _spell(path: Path) -> str:
    return _spell(path[0]) + display(path[1]) if path else ""


def check(schema: Schema, value: Any) -> None:
    """Raise Nonconforming unless `value` conforms to `schema`. Raises TooMany."""
    problems: Problems = []
    _check(schema, value, None, problems)
    if problems:
        raise Nonconforming(problems)


def _check(schema: Schema, value: Any, path: Path, problems: Problems) -> None:
    if value is None:
        return
    match schema.type:
        case Type.OBJECT | Type.MAP:
            _check_fields(schema, value, path, problems)
        case Type.LIST:
            _check_items(schema, value, path, problems)
        case Type.ANY | Type.INT_OR_STRING:
            pass
        case _:
            _check_scalar(schema, value, path, problems)


def _check_fields(schema: Schema, value: Any, path: Path, problems: Problems) -> None:
    if not isinstance(value, dict):
        problems.append((path, f"expected map, got &{{{go_text(value)}}}"))
        return
    most = MAX_ITEMS.get(schema.name or "", {})
    for name, item in value.items():
        here = (path, field_element(name))
        if name in most and isinstance(item, dict | list) and len(item) > most[name]:
            raise TooMany(_spell(here).removeprefix("."), len(item), most[name])
        declared = schema.fields.get(name, schema.items)
        if declared is not None:
            _check(declared, item, here, problems)
        elif schema.type is Type.OBJECT and schema.fields and not schema.preserve_unknown:
            problems.append((here, "field not declared in schema"))
            return


def _check_items(schema: Schema, value: Any, path: Path, problems: Problems) -> None:
    if not isinstance(value, list):
        problems.append((path, f"expected list, got &{{{go_text(value)}}}"))
        return
    shape = shape_of(schema)
    seen: set[str] = set()
    for place, item in enumerate(value):
        element = f"i:{place}"
        if shape.kind in (ITEMS, SET):
            try:
                element = shape.element(item)
            except BadElement as error:
                problems.append((path, f"element {place}: {error}"))
                return
            if element in seen:
                problems.append((path, f"duplicate entries for key {display(element)}"))
            seen.add(element)
        if schema.items is not None:
            _check(schema.items, item, (path, element), problems)


def _check_scalar(schema: Schema, value: Any, path: Path, problems: Problems) -> None:
    text = None
    match schema.type:
        case Type.INTEGER | Type.NUMBER:
            if isinstance(value, bool) or not isinstance(value, int | float):
                text = f"expected numeric (int or float), got {go_type(value)}"
        case Type.STRING | Type.BYTES if schema.format in (None, "", "byte"):
            if not isinstance(value, str):
                text = f"expected string, got &value.valueUnstructured{{Value:{go_syntax(value)}}}"
        case Type.BOOLEAN:
            if not isinstance(value, bool):
                text = f"expected boolean, got &{{{go_text(value)}}}"
        case _:
            if isinstance(value, dict | list):
                text = f"expected any scalar, got &{{{go_text(value)}}}"
    if text is not None:
        problems.append((path, text))
