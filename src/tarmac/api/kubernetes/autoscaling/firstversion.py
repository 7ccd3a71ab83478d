"""`autoscaling/v1` as a second form of HorizontalPodAutoscalers, which are stored as `autoscaling/v2`.

Version 1 has a field for the CPU target only. Other metrics, the behavior, and the metrics and conditions of the status
are in annotations, as Kubernetes writes them: metrics in version 1's own form, the behavior under Go's field names.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

import msgspec

from tarmac.api.decode.rules import BodyWalk, Mismatch, Rule, TooManyItems, compile_rule
from tarmac.api.kubernetes.autoscaling.autoscalers import CPU_METRIC, AutoscalerStrategy
from tarmac.api.kubernetes.autoscaling.firstmetrics import from_first, to_first
from tarmac.api.schema import Json, JsonObject
from tarmac.api.tables import load_schema
from tarmac.base.fielderrors import FieldErrors

_PREFIX: Final = "autoscaling.alpha.kubernetes.io"
METRICS: Final = f"{_PREFIX}/metrics"
CURRENT_METRICS: Final = f"{_PREFIX}/current-metrics"
CONDITIONS: Final = f"{_PREFIX}/conditions"
BEHAVIOR: Final = f"{_PREFIX}/behavior"
_OF_SPEC: Final = (METRICS, BEHAVIOR)
_OF_STATUS: Final = (CURRENT_METRICS, CONDITIONS)
_TOLERANCES: Final = (f"{_PREFIX}/scale-down-tolerance", f"{_PREFIX}/scale-up-tolerance")
_OWN: Final = frozenset((*_OF_SPEC, *_OF_STATUS, *_TOLERANCES))
_CPU_TARGET: Final = "targetCPUUtilizationPercentage"
_CPU_USED: Final = "currentCPUUtilizationPercentage"
_SAME_IN_SPEC: Final = ("scaleTargetRef", "minReplicas", "maxReplicas")
_SAME_IN_STATUS: Final = ("observedGeneration", "lastScaleTime", "currentReplicas", "desiredReplicas")
_DIRECTIONS: Final = ("scaleUp", "scaleDown")
_RULES: Final = {"stabilizationWindowSeconds": "StabilizationWindowSeconds", "selectPolicy": "SelectPolicy"}
_POLICY: Final = {"type": "Type", "value": "Value", "periodSeconds": "PeriodSeconds"}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class FirstAutoscalerStrategy(AutoscalerStrategy):
    """The same rules; they are checked on the stored form, so causes name its fields, as those of Kubernetes do."""

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {}).setdefault("minReplicas", 1)
        # There and back: adds the CPU target where no annotation has other metrics, and drops annotations of a wrong
        # form. Before fields get their owners, so that these own the target.
        converted = shown(stored(obj))
        obj["spec"], obj["metadata"] = converted["spec"], converted["metadata"]

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = {"currentReplicas": 0, "desiredReplicas": 0}
        _carry(obj, {"metadata": {}}, _OF_STATUS)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_for_update(new, old)
        _carry(new, old, _OF_STATUS)

    def prepare_for_status_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_for_status_update(new, old)
        _carry(new, old, _OF_SPEC)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        super().validate(stored(obj), errors)


def shown(autoscaler: JsonObject) -> JsonObject:
    """Convert the stored form to version 1."""
    spec, status = autoscaler.get("spec") or {}, autoscaler.get("status") or {}
    metrics: list[JsonObject] = spec.get("metrics") or []
    used: list[JsonObject] = status.get("currentMetrics") or []
    targets = [_cpu(metric, "target") for metric in metrics]
    others = [to_first(metric, "target") for metric, target in zip(metrics, targets, strict=True) if target is None]
    now = {
        METRICS: others,
        CURRENT_METRICS: [to_first(metric, "current") for metric in used],
        BEHAVIOR: _go_fields(spec.get("behavior")),
        CONDITIONS: status.get("conditions"),
    }
    first = {**autoscaler, "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v1"}
    first["metadata"] = _annotated(autoscaler, {key: _encode(value).decode() for key, value in now.items() if value})
    first["spec"] = _kept(spec, _SAME_IN_SPEC) | _named(_CPU_TARGET, targets)
    first["status"] = {"currentReplicas": 0, "desiredReplicas": 0} | _kept(status, _SAME_IN_STATUS)
    first["status"] |= _named(_CPU_USED, [_cpu(metric, "current") for metric in reversed(used)])
    return first


def stored(first: JsonObject) -> JsonObject:
    """Convert version 1 to the stored form. An annotation that does not fit its type is dropped, as in Kubernetes."""
    spec, status = first.get("spec") or {}, first.get("status") or {}
    annotations = (first.get("metadata") or {}).get("annotations") or {}
    metrics = _metrics(annotations, METRICS, "target", "spec", "metrics") or []
    if spec.get(_CPU_TARGET) is not None:
        metrics = [*metrics, _cpu_metric("target", {"type": "Utilization", "averageUtilization": spec[_CPU_TARGET]})]
    made: JsonObject = {**first, "kind": "HorizontalPodAutoscaler", "apiVersion": "autoscaling/v2"}
    made["metadata"] = _annotated(first, {})
    made["spec"] = _kept(spec, _SAME_IN_SPEC) | {"metrics": metrics or [CPU_METRIC]}
    if behavior := _fitting(_json_fields(_read(annotations, BEHAVIOR)), "spec", "behavior"):
        made["spec"]["behavior"] = behavior
    made["status"] = _stored_status(status, annotations)
    return made


def _stored_status(status: JsonObject, annotations: Mapping[str, str]) -> JsonObject:
    found = _metrics(annotations, CURRENT_METRICS, "current", "status", "currentMetrics")
    if found is None and status.get(_CPU_USED) is not None:
        found = [_cpu_metric("current", {"averageUtilization": status[_CPU_USED]})]
    made = {"desiredReplicas": 0} | _kept(status, _SAME_IN_STATUS) | {"currentMetrics": found}
    if not made.get("currentReplicas"):
        made.pop("currentReplicas", None)
    if conditions := _fitting(_read(annotations, CONDITIONS), "status", "conditions"):
        made["conditions"] = conditions
    return made


def _cpu(metric: JsonObject, field: str) -> int | None:
    source = metric.get("resource") or {}
    if metric.get("type") != "Resource" or source.get("name") != "cpu":
        return None
    return (source.get(field) or {}).get("averageUtilization")


def _cpu_metric(field: str, amount: JsonObject) -> JsonObject:
    return {"type": "Resource", "resource": {"name": "cpu", field: amount}}


def _named(field: str, found: list[int | None]) -> JsonObject:
    value = next((each for each in found if each is not None), None)
    return {} if value is None else {field: value}


def _kept(part: JsonObject, fields: tuple[str, ...]) -> JsonObject:
    return {field: part[field] for field in fields if field in part}


def _carry(new: JsonObject, old: JsonObject, keys: tuple[str, ...]) -> None:
    """Replace annotations by those of the old object: they are parts of its spec or status."""
    kept = old["metadata"].get("annotations") or {}
    annotations = {k: v for k, v in (new["metadata"].get("annotations") or {}).items() if k not in keys}
    annotations |= {key: kept[key] for key in keys if key in kept}
    if annotations or "annotations" in new["metadata"]:
        new["metadata"]["annotations"] = annotations


def _annotated(obj: JsonObject, more: dict[str, str]) -> JsonObject:
    metadata = dict(obj.get("metadata") or {})
    annotations = {k: v for k, v in (metadata.pop("annotations", None) or {}).items() if k not in _OWN} | more
    return {**metadata, "annotations": annotations} if annotations else metadata


def _metrics(annotations: Mapping[str, str], key: str, field: str, *path: str) -> list[JsonObject] | None:
    found = _read(annotations, key)
    if not isinstance(found, list) or not all(isinstance(each, dict) for each in found):
        return None
    return _fitting([from_first(each, field) for each in found], *path)


def _read(annotations: Mapping[str, str], key: str) -> Any:
    try:
        return _decode(annotations[key]) if key in annotations else None
    except (msgspec.DecodeError, RecursionError):
        return None


def _fitting(value: Json, *path: str) -> Any:
    """Return a value that fits the type of a stored field, and None for any other.

    An annotation is a text of the client's choice: nothing has checked the types in it.
    """
    if value is None:
        return None
    try:
        return _rule(*path)(value, BodyWalk(native=True), None, None)
    except (Mismatch, TooManyItems):
        return None


@cache
def _rule(*path: str) -> Rule:
    schema = load_schema("autoscaling", "v2", "HorizontalPodAutoscaler")
    for field in path:
        schema = schema.fields[field]
    return compile_rule(schema, native=True)


def _go_fields(behavior: JsonObject | None) -> JsonObject | None:
    """Return a behavior as Go writes a struct whose fields have no JSON names."""
    if not behavior:
        return None
    return {direction[0].upper() + direction[1:]: _go_rules(behavior.get(direction)) for direction in _DIRECTIONS}


def _go_rules(rules: JsonObject | None) -> JsonObject | None:
    if rules is None:
        return None
    policies = [{name: each.get(field) for field, name in _POLICY.items()} for each in rules.get("policies") or ()]
    made = {name: rules.get(field) for field, name in _RULES.items()}
    return made | {"Policies": policies, "Tolerance": rules.get("tolerance")}


def _json_fields(value: Any) -> Any:
    """Return a value with JSON's names for those of Go, and without nulls."""
    if isinstance(value, dict):
        return {
            str(key)[:1].lower() + str(key)[1:]: _json_fields(each) for key, each in value.items() if each is not None
        }
    return [_json_fields(each) for each in value] if isinstance(value, list) else value
