"""Metrics of `autoscaling/v1`, which exist in annotations only, and those of `autoscaling/v2`."""

from __future__ import annotations

from typing import Any, Final

from tarmac.api.schema import JsonObject

_REFERENCE: Final = ("kind", "name", "apiVersion")  # in the order in which Go writes them
# source -> path in version 2 -> field in version 1; `@` stands for `target` in a spec and for `current` in a status
_FIELDS: Final[dict[str, dict[str, str]]] = {
    "object": {
        "describedObject": "target",
        "metric.name": "metricName",
        "@.value": "@Value",
        "metric.selector": "selector",
        "@.averageValue": "averageValue",
    },
    "pods": {"metric.name": "metricName", "@.averageValue": "@AverageValue", "metric.selector": "selector"},
    "resource": {
        "name": "name",
        "@.averageUtilization": "@AverageUtilization",
        "@.averageValue": "@AverageValue",
    },
    "containerResource": {
        "name": "name",
        "@.averageUtilization": "@AverageUtilization",
        "@.averageValue": "@AverageValue",
        "container": "container",
    },
    "external": {
        "metric.name": "metricName",
        "metric.selector": "metricSelector",
        "@.value": "@Value",
        "@.averageValue": "@AverageValue",
    },
}


def to_first(metric: JsonObject, at: str) -> JsonObject:
    """Convert a metric to version 1. `at` is `target` or `current`."""
    made: JsonObject = {"type": metric.get("type", "")}
    for source, fields in _FIELDS.items():
        if metric.get(source) is not None:
            found = {name: _value(metric[source], path.replace("@", at)) for path, name in fields.items()}
            if target := found.get("target"):
                found["target"] = {field: target[field] for field in _REFERENCE if field in target}
            made[source] = {name.replace("@", at): value for name, value in found.items() if value is not None}
    return made


def from_first(metric: JsonObject, at: str) -> JsonObject:
    """Convert a metric of version 1. Its types are unknown; the caller checks those of the result."""
    made: JsonObject = {"type": metric.get("type", "")}
    for source, fields in _FIELDS.items():
        given = metric.get(source)
        if isinstance(given, dict):
            made[source] = {} if at == "current" else {"target": {"type": _target_type(source, given)}}
            for path, name in fields.items():
                _place(made[source], path.replace("@", at), given.get(name.replace("@", at)))
            made[source].setdefault(at, {})
    return made


def _target_type(source: str, given: JsonObject) -> str:
    if source in ("resource", "containerResource"):
        return "AverageValue" if given.get("targetAverageUtilization") is None else "Utilization"
    if source == "object":
        return "Value" if given.get("averageValue") is None else "AverageValue"
    return "AverageValue" if source == "pods" or given.get("targetValue") is None else "Value"


def _value(source: JsonObject, path: str) -> Any:
    value: Any = source
    for step in path.split("."):
        value = (value or {}).get(step)
    return value


def _place(source: JsonObject, path: str, value: Any) -> None:
    if value is not None:
        *above, last = path.split(".")
        for step in above:
            source = source.setdefault(step, {})
        source[last] = value
