"""HorizontalPodAutoscaler of `autoscaling/v2`: defaults and validation."""

from __future__ import annotations

import copy
from typing import Any, Final

from tarmac.api import checks
from tarmac.api.kubernetes.autoscaling.metricspecs import validate_metric
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

CPU_METRIC: Final[JsonObject] = {
    "type": "Resource",
    "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 80}},
}
_UP: Final[JsonObject] = {
    "stabilizationWindowSeconds": 0,
    "selectPolicy": "Max",
    "policies": [
        {"type": "Pods", "value": 4, "periodSeconds": 15},
        {"type": "Percent", "value": 100, "periodSeconds": 15},
    ],
}
_DOWN: Final[JsonObject] = {
    "selectPolicy": "Max",
    "policies": [{"type": "Percent", "value": 100, "periodSeconds": 15}],
}
_MAX_WINDOW: Final = 3600  # seconds
_MAX_PERIOD: Final = 1800  # seconds


class AutoscalerStrategy(KubernetesStrategy):
    """Desired numbers of replicas by metrics."""

    has_status = True

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        spec.setdefault("minReplicas", 1)
        if not spec.get("metrics"):
            spec["metrics"] = [copy.deepcopy(CPU_METRIC)]
        behavior = spec.get("behavior")
        if behavior is not None:
            for direction, defaults in (("scaleUp", _UP), ("scaleDown", _DOWN)):
                rules = behavior.get(direction)
                behavior[direction] = copy.deepcopy(defaults) | {
                    k: v for k, v in (rules or {}).items() if v is not None
                }

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = {"desiredReplicas": 0, "currentMetrics": None}

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        _validate_bounds(spec, errors)
        _validate_target(spec.get("scaleTargetRef") or {}, errors)
        for index, metric in enumerate(spec["metrics"]):
            validate_metric(metric, f"spec.metrics[{index}]", errors)
        if not spec["minReplicas"] and not any(each.get("type") in ("Object", "External") for each in spec["metrics"]):
            detail = "must specify at least one Object or External metric to support scaling to zero replicas"
            errors.forbidden("spec.metrics", detail)
        for direction, rules in (spec.get("behavior") or {}).items():
            _validate_rules(rules, f"spec.behavior.{direction}", errors)


def _validate_bounds(spec: JsonObject, errors: FieldErrors) -> None:
    least, most = spec["minReplicas"], spec.get("maxReplicas", 0)
    if least < 1:
        errors.invalid("spec.minReplicas", least, "must be greater than or equal to 1")
    if most < 1:
        errors.invalid("spec.maxReplicas", most, "must be greater than 0")
    if most < least:
        errors.invalid("spec.maxReplicas", most, "must be greater than or equal to `minReplicas`")


def _validate_target(target: JsonObject, errors: FieldErrors) -> None:
    for field in ("kind", "name"):
        value = target.get(field)
        if not value:
            errors.required(f"spec.scaleTargetRef.{field}")
        else:
            checks.report(names.path_segment_name(value), value, f"spec.scaleTargetRef.{field}", errors)
    version = target.get("apiVersion", "")
    if "/" not in version:
        errors.invalid("spec.scaleTargetRef.apiVersion", version, "apiVersion must specify API group")


def _validate_rules(rules: JsonObject, path: str, errors: FieldErrors) -> None:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None:
        checks.non_negative(window, f"{path}.stabilizationWindowSeconds", errors)
        _at_most(window, _MAX_WINDOW, f"{path}.stabilizationWindowSeconds", errors)
    choice = rules.get("selectPolicy")
    if choice not in (None, "Max", "Min", "Disabled"):
        errors.not_supported(f"{path}.selectPolicy", choice, ("Disabled", "Max", "Min"))
    policies: list[Any] = rules.get("policies") or []
    if not policies:
        errors.required(f"{path}.policies", "must specify at least one Policy")
    for index, policy in enumerate(policies):
        _validate_policy(policy, f"{path}.policies[{index}]", errors)


def _validate_policy(policy: JsonObject, path: str, errors: FieldErrors) -> None:
    if policy.get("type") not in ("Pods", "Percent"):
        errors.not_supported(f"{path}.type", policy.get("type", ""), ("Percent", "Pods"))
    for field in ("value", "periodSeconds"):
        if policy.get(field, 0) <= 0:
            errors.invalid(f"{path}.{field}", policy.get(field, 0), "must be greater than zero")
    _at_most(policy.get("periodSeconds", 0), _MAX_PERIOD, f"{path}.periodSeconds", errors)


def _at_most(value: int, limit: int, path: str, errors: FieldErrors) -> None:
    if value > limit:
        errors.invalid(path, value, f"must be less than or equal to {limit}")
