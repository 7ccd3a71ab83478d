"""Resource usage as a table or as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from tarmac.cli.rendering.text import table
from tarmac.cli.top.usage import Usage
from tarmac.decide.amounts import CPU, MEMORY

_METRICS: Final = ("CPU", "CPU%", "MEMORY", "MEMORY%")
_HEADERS: Final = {
    "cities": ("CITY", "INSTANCES"),
    "nodes": ("NODE", "CITY", "INSTANCES"),
    "workloads": ("NAME", "CITIES", "INSTANCES"),
    "instances": ("NAME", "CITY", "NODE"),
}
_NONE: Final = "-"
_STALE: Final = "?"
_MEBI: Final = 1 << 20
_MAX_CITIES: Final = 3


def usage_table(level: str, rows: Sequence[Usage], *, namespaces: bool = False, lines: int = 0) -> str:
    """Return all rows, or those that fit a terminal of that many lines."""
    room = max(lines - 3, 1) if lines else len(rows)  # for the headers, the summary line, and the cursor
    shown = rows if len(rows) <= room + 1 else rows[:room]
    before = ("NAMESPACE",) if namespaces else ()
    cells = [((row.namespace,) if namespaces else ()) + _cells(level, row) for row in shown]
    more = f"… and {len(rows) - len(shown)} more\n" if len(shown) < len(rows) else ""
    return table((*before, *_HEADERS[level], *_METRICS), cells) + "\n" + more


def usage_document(level: str, rows: Sequence[Usage]) -> dict[str, Any]:
    """Return the JSON document. Unknown values are null."""
    return {level: [_document(level, row) for row in rows]}


def sorted_rows(rows: Sequence[Usage], by: str) -> list[Usage]:
    """Sort by usage, then by name; unmeasured rows come last."""
    if by == "name":
        return sorted(rows, key=lambda row: (row.name, row.namespace))
    return sorted(rows, key=lambda row: (not row.measured, -row.used.get(by, 0), row.name, row.namespace))


def _cells(level: str, row: Usage) -> tuple[str, ...]:
    count = _NONE if row.instances is None else str(row.instances)
    cities = _cities(row.cities)
    first = {
        "cities": (cities, count),
        "nodes": (row.name, cities, count),
        "workloads": (row.name, cities, count),
        "instances": (row.name, cities, row.node or _NONE),
    }
    return (*first[level], *(cell for resource in (CPU, MEMORY) for cell in _figures(row, resource)))


def _figures(row: Usage, resource: str) -> tuple[str, str]:
    if row.stale:
        return _STALE, _STALE
    if not row.measured:
        return _NONE, _NONE
    share = row.share(resource)
    return _amount(row, resource), _NONE if share is None else f"{share}%"


def _amount(row: Usage, resource: str) -> str:
    used = row.used.get(resource, 0)
    return f"{used}m" if resource == CPU else f"{round(used / _MEBI)}Mi"


def _cities(cities: Sequence[str]) -> str:
    known = [city or _NONE for city in cities]
    more = [f"+{len(known) - _MAX_CITIES}"] if len(known) > _MAX_CITIES else []
    return ",".join((*known[:_MAX_CITIES], *more)) or _NONE


def _document(level: str, row: Usage) -> dict[str, Any]:
    known = row.measured and not row.stale
    figures = {
        "instances": row.instances,
        "cpu": _amount(row, CPU) if known else None,
        "cpuPercent": row.share(CPU) if known else None,
        "memory": _amount(row, MEMORY) if known else None,
        "memoryPercent": row.share(MEMORY) if known else None,
        "stale": row.stale,
    }
    city = row.cities[0] if row.cities else ""
    first: dict[str, dict[str, Any]] = {
        "cities": {"city": city},
        "nodes": {"node": row.name, "city": city},
        "workloads": {"namespace": row.namespace, "name": row.name, "cities": row.cities},
        "instances": {"namespace": row.namespace, "name": row.name, "city": city, "node": row.node},
    }
    if level == "instances":
        del figures["instances"]
    return first[level] | figures
