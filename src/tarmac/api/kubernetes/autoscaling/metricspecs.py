"""Metrics of a HorizontalPodAutoscaler: their validation, and their cells in a table."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tarmac.api.kubernetes.resourcenames import ZERO, quantity
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

# type -> field of its source
_SOURCES: Final = {
    "ContainerResource": "containerResource",
    "External": "external",
    "Object": "object",
    "Pods": "pods",
    "Resource": "resource",
}
_TARGETS: Final = ("Utilization", "Value", "AverageValue")
_MAX_SHOWN: Final = 2  # metrics in the table; the rest is counted
_UNKNOWN: Final = "<unknown>"


def validate_metric(metric: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check one metric: a known type, the source of that type only, and a positive target."""
    kind = metric.get("type", "")
    if not kind:
        errors.required(f"{path}.type", "must specify a metric source type")
        return
    if kind not in _SOURCES:
        errors.not_supported(f"{path}.type", kind, sorted(_SOURCES))
        return
    own = _SOURCES[kind]
    for field in _SOURCES.values():
        if field != own and metric.get(field) is not None:
            errors.forbidden(f"{path}.{field}", "must populate the given metric source only")
    source = metric.get(own)
    if source is None:
        errors.required(f"{path}.{own}", "must populate information for the given metric source")
        return
    _validate_source(own, source, f"{path}.{own}", errors)


def _validate_source(own: str, source: JsonObject, path: str, errors: FieldErrors) -> None:
    if own in ("resource", "containerResource"):
        if not source.get("name"):
            errors.required(f"{path}.name", "must specify a resource name")
        if own == "containerResource" and not source.get("container"):
            errors.required(f"{path}.container", "must specify a container")
    elif not (source.get("metric") or {}).get("name"):
        errors.required(f"{path}.metric.name", "must specify a metric name")
    target = source.get("target") or {}
    _validate_target(target, f"{path}.target", errors)
    if own in ("resource", "containerResource"):
        _either(target, ("averageUtilization", "averageValue"), "utilization", f"{path}.target", errors)
    elif own == "external":
        _either(target, ("value", "averageValue"), "per-pod target", f"{path}.target", errors)
    elif own == "pods":
        if target.get("averageValue") is None:
            errors.required(f"{path}.target.averageValue", "must specify a positive target averageValue")
    elif target.get("value") is None and target.get("averageValue") is None:
        errors.required(f"{path}.target.averageValue", "must set either a target value or averageValue")


def _either(target: JsonObject, fields: tuple[str, str], noun: str, path: str, errors: FieldErrors) -> None:
    found = [field for field in fields if target.get(field) is not None]
    if not found:
        errors.required(f"{path}.{fields[0]}", f"must set either a target raw value or a target {noun}")
    elif len(found) > 1:
        errors.forbidden(f"{path}.{fields[1]}", f"may not set both a target raw value and a target {noun}")


def _validate_target(target: JsonObject, path: str, errors: FieldErrors) -> None:
    kind = target.get("type", "")
    if not kind:
        errors.required(f"{path}.type", "must specify a metric target type")
    if kind not in _TARGETS:
        errors.invalid(f"{path}.type", kind, "must be either Utilization, Value, or AverageValue")
    for field in ("value", "averageValue"):
        amount = target.get(field)
        if amount is not None and quantity(amount) <= ZERO:
            errors.invalid(f"{path}.{field}", amount, "must be positive")
    share = target.get("averageUtilization")
    if share is not None and share < 1:
        errors.invalid(f"{path}.averageUtilization", share, "must be greater than 0")


def targets_cell(autoscaler: JsonObject) -> str:
    """Return `cpu: 40%/80%` for each metric, the current value before the target."""
    specs = (autoscaler.get("spec") or {}).get("metrics") or []
    statuses = (autoscaler.get("status") or {}).get("currentMetrics") or []
    if not specs:
        return "<none>"
    cells = list(_cells(specs, statuses))
    more = f" + {len(cells) - _MAX_SHOWN} more..." if len(cells) > _MAX_SHOWN else ""
    return ", ".join(cells[:_MAX_SHOWN]) + more


def _cells(specs: list[JsonObject], statuses: list[JsonObject]) -> Iterator[str]:
    for index, spec in enumerate(specs):
        own = _SOURCES.get(spec.get("type", ""), "")
        status = statuses[index] if index < len(statuses) else {}
        target = (spec.get(own) or {}).get("target") or {}
        current = (status.get(own) or {}).get("current") or {}
        if own in ("resource", "containerResource"):
            yield f"{spec[own].get('name', '')}: {_shown(target, current)}"
        elif own:
            average = " (avg)" if target.get("averageValue") is not None and own != "pods" else ""
            yield f"{_shown(target, current)}{average}"
        else:
            yield "<unknown type>"


def _shown(target: JsonObject, current: JsonObject) -> str:
    if target.get("averageValue") is not None:
        return f"{current.get('averageValue', _UNKNOWN)}/{target['averageValue']}"
    if target.get("value") is not None:
        return f"{current.get('value', _UNKNOWN)}/{target['value']}"
    used = current.get("averageUtilization")
    wanted = target.get("averageUtilization")
    return f"{_UNKNOWN if used is None else f'{used}%'}/{'<auto>' if wanted is None else f'{wanted}%'}"
