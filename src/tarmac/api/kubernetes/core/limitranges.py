"""LimitRange: bounds and defaults for the requests of single pods, containers and claims."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.kubernetes.core.pods import classrules
from tarmac.api.kubernetes.resourcenames import (
    container_resource_name,
    is_overcommittable,
    quantity,
    resource_name,
    round_up,
)
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity, six_places

DEFAULT_CLASSES = "defaultClasses"
_TYPES = ("Pod", "Container", "PersistentVolumeClaim")
_LISTS = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


class LimitRangeStrategy(KubernetesStrategy):
    """LimitRange."""

    allow_create_on_update = True

    def default(self, obj: JsonObject) -> None:
        for item in checks.objects(obj, "spec", "limits"):
            for field in _LISTS:
                round_up(item.get(field))
            classrules.store_map(item, DEFAULT_CLASSES)
            if item.get("type") == "Container":
                _default_container_limits(item)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        seen: set[str] = set()
        for index, item in enumerate(checks.objects(obj, "spec", "limits")):
            path, kind = f"spec.limits[{index}]", item.get("type", "")
            if messages := names.qualified_name(kind):
                checks.report(messages, kind, f"{path}.type", errors)
            elif "/" not in kind and kind not in _TYPES:
                errors.invalid(f"{path}.type", kind, "must be a standard limit type or fully qualified")
            if kind in seen:
                errors.duplicate(f"{path}.type", kind)
            seen.add(kind)
            _validate_item(item, kind, path, errors)


def _default_container_limits(item: JsonObject) -> None:
    """Fill in defaults: the limit from `max`, the request from the default limit, else from `min`."""
    limits, requests = item.setdefault("default", {}), item.setdefault("defaultRequest", {})
    for target, source in ((limits, item.get("max")), (requests, limits), (requests, item.get("min"))):
        for name, amount in (source or {}).items():
            target.setdefault(name, amount)
    for field in ("default", "defaultRequest"):
        if not item[field]:
            del item[field]


def _validate_item(item: JsonObject, kind: str, path: str, errors: FieldErrors) -> None:
    if classes := item.get(DEFAULT_CLASSES):
        if kind not in ("Container", "Pod"):
            errors.forbidden(f"{path}.{DEFAULT_CLASSES}", "may be specified when `type` is 'Container' or 'Pod'")
        classrules.class_map(classes, f"{path}.{DEFAULT_CLASSES}", errors)
    check = container_resource_name if kind in ("Pod", "Container") else resource_name
    amounts: dict[str, dict[str, Quantity]] = {}
    for field in _LISTS:
        given = item.get(field) or {}
        if kind == "Pod" and given and field in ("default", "defaultRequest"):
            errors.forbidden(f"{path}.{field}", "may not be specified when `type` is 'Pod'")
            given = {}
        for name in given:
            check(name, f"{path}.{field}[{name}]", errors)
        amounts[field] = {name: quantity(text) for name, text in given.items()}
    if kind == "PersistentVolumeClaim" and "storage" not in amounts["min"] and "storage" not in amounts["max"]:
        detail = "either minimum or maximum storage value is required, but neither was provided"
        errors.required(f"{path}.limits", detail)
    for name in dict.fromkeys(name for field in _LISTS for name in amounts[field]):
        _validate_bounds(name, {field: amounts[field].get(name) for field in _LISTS}, path, errors)


def _validate_bounds(name: str, amounts: dict[str, Quantity | None], path: str, errors: FieldErrors) -> None:
    low, high = amounts["min"], amounts["max"]
    limit, request, ratio = amounts["default"], amounts["defaultRequest"], amounts["maxLimitRequestRatio"]
    # smaller, its name, larger, its name, the invalid field and the value shown
    for small, small_word, large, large_word, field, shown in (
        (low, "min value", high, "max value", "min", low),
        (low, "min value", request, "default request value", "defaultRequest", request),
        (request, "default request value", high, "max value", "defaultRequest", request),
        (request, "default request value", limit, "default limit value", "defaultRequest", request),
        (low, "min value", limit, "default value", "default", low),
        (limit, "default value", high, "max value", "default", high),
    ):
        if small is not None and large is not None and small > large:
            detail = f"{small_word} {small} is greater than {large_word} {large}"
            errors.invalid(f"{path}.{field}[{name}]", str(shown), detail)
    if ratio is not None:
        _validate_ratio(ratio, low, high, f"{path}.maxLimitRequestRatio[{name}]", errors)
    if not is_overcommittable(name) and limit is not None and request is not None and limit != request:
        detail = f"default value {limit} must equal to defaultRequest value {request} in {name}"
        errors.invalid(f"{path}.defaultRequest[{name}]", str(request), detail)


def _validate_ratio(
    ratio: Quantity, low: Quantity | None, high: Quantity | None, path: str, errors: FieldErrors
) -> None:
    if ratio.milli() < 1000:
        errors.invalid(path, str(ratio), f"ratio {ratio} is less than 1")
    if low is None or high is None or low.milli() <= 0:
        return
    # In integers: a quotient of quantities may be larger than any float.
    if ratio.milli() * low.milli() > high.milli() * 1000:
        largest = six_places(high.milli(), low.milli())
        errors.invalid(path, str(ratio), f"ratio {ratio} is greater than max/min = {largest}")
