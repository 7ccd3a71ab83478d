"""Printer columns of Tarmac's own kinds.

A column that reads one path is the same in our tables and in a CRD. Where a path is not enough for our own table,
`value` computes the cell and `json_path` is the path that a CRD shows instead.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from tarmac.api.resource import Age, Column
from tarmac.api.schema import JsonObject


def lookup(obj: JsonObject, path: str) -> Any:
    """Return the value at a dotted path with list indexes (`.status.networkInterfaces[0].name`), or None."""
    value: Any = obj
    for step in _steps(path):
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else None
        else:
            value = value.get(step) if isinstance(value, dict) else None
        if value is None:
            return None
    return value


@cache
def _steps(path: str) -> tuple[str | int, ...]:
    parts = path.lstrip(".").replace("[", ".[").split(".")
    return tuple(int(part[1:-1]) if part.startswith("[") else part for part in parts)


def column(name: str, path: str, description: str, *, type: str = "string", wide: bool = False) -> Column:
    """Return a column that shows the value at a path."""
    return computed(name, lambda obj: lookup(obj, path), path, description, type=type, wide=wide)


def join(name: str, path: str, description: str, *, wide: bool = False) -> Column:
    """Return a column that joins the values at a path in all items of a list (`.spec.placements[*].name`) by commas."""
    before, _, after = path.partition("[*]")

    def value(obj: JsonObject) -> str | None:
        items: list[Any] = lookup(obj, before) or []
        found = [lookup(item, after) if after else item for item in items]
        return ",".join(str(item) for item in found if item is not None) or None

    return computed(name, value, path, description, wide=wide)


def computed(
    name: str,
    value: Callable[[JsonObject], Any],
    path: str | None,
    description: str,
    *,
    type: str = "string",
    wide: bool = False,
) -> Column:
    """Return a column with cells computed by a function."""
    return Column(name, value, type, priority=int(wide), description=description, json_path=path)


def condition(name: str, type: str, description: str, *, field: str = "status", wide: bool = False) -> Column:
    """Return a column that shows a condition's status or reason."""

    def value(obj: JsonObject) -> Any:
        conditions = lookup(obj, ".status.conditions") or ()
        return next((item.get(field) for item in conditions if item.get("type") == type), None)

    return computed(name, value, f".status.conditions[?(@.type=='{type}')].{field}", description, wide=wide)


def _age(obj: JsonObject) -> Age | str:
    created = obj["metadata"].get("creationTimestamp")
    return Age(created) if created else "<unknown>"


NAME = Column(
    "Name",
    lambda obj: obj["metadata"]["name"],
    "string",
    "name",
    description="Name of the object, unique in its namespace.",
)
AGE = Column("Age", _age, "date", description="Time since creation.", json_path=".metadata.creationTimestamp")
