"""The number of instances, and the metrics that change it."""

from __future__ import annotations

import re

from tarmac.api import checks
from tarmac.api.checks import mapping, objects
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.quantity import Quantity

MAX_REPLICAS = 1000
_POLICIES = ("OrderedReady", "Parallel")
_UTILIZED = ("cpu", "memory")
_NETWORK = ("network_receive_bytes_per_second", "network_transmit_bytes_per_second")
# target field -> its name in `type`; in the order in which a second one is rejected
_TARGETS = {"value": "Value", "averageValue": "AverageValue", "averageUtilization": "Utilization"}
_EXPRESSION = re.compile(r"\{\{(.*?)\}\}|\{\{", re.DOTALL)
_KNOWN_EXPRESSIONS = ("context.locality.cityCode",)


def check_scale_settings(owner: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check `scaleSettings` of a placement or a deployment."""
    settings, where = owner.get("scaleSettings"), f"{path}.scaleSettings"
    if settings is None:
        errors.required(where)
        return
    low, high, metrics = settings.get("minReplicas"), settings.get("maxReplicas"), objects(settings, "metrics")
    _bounds(low, high, where, errors)
    if high is not None and not metrics:
        errors.required(f"{where}.metrics", "must say what to scale by when maxReplicas is set")
    if metrics and high is None:
        errors.required(f"{where}.maxReplicas", "must be set when there are metrics")
    for index, metric in enumerate(metrics):
        _metric(metric, f"{where}.metrics[{index}]", errors)
    policy = settings.get("instanceManagementPolicy", _POLICIES[0])
    checks.one_of(policy, _POLICIES, f"{where}.instanceManagementPolicy", errors)
    behavior = mapping(settings, "behavior")
    for direction in ("scaleUp", "scaleDown"):
        _rules(mapping(behavior, direction), f"{where}.behavior.{direction}", errors)


def _bounds(low: int | None, high: int | None, path: str, errors: FieldErrors) -> None:
    if low is None:
        errors.required(f"{path}.minReplicas")
    elif low <= 0:
        errors.invalid(f"{path}.minReplicas", low, "must be greater than 0")
    elif low > MAX_REPLICAS:
        errors.invalid(f"{path}.minReplicas", low, f"must be less than or equal to {MAX_REPLICAS}")
    if high is None:
        return
    if high > MAX_REPLICAS:
        errors.invalid(f"{path}.maxReplicas", high, f"must be less than or equal to {MAX_REPLICAS}")
    elif high < (low or 1):
        errors.invalid(f"{path}.maxReplicas", high, "must be greater than or equal to minReplicas")


def _metric(metric: JsonObject, path: str, errors: FieldErrors) -> None:
    resource, external = metric.get("resource"), metric.get("external")
    if resource is None and external is None:
        errors.required(f"{path}.resource", "must specify a metric: one of resource, external")
    if resource is not None:
        name = resource.get("name", "")
        checks.one_of(name, (*_UTILIZED, *_NETWORK), f"{path}.resource.name", errors)
        _target(resource, f"{path}.resource.target", errors, utilized=name not in _NETWORK)
        if external is not None:
            errors.forbidden(f"{path}.external", "may not specify more than 1 metric source")
    elif external is not None:
        _external(external, f"{path}.external", errors)


def _external(external: JsonObject, path: str, errors: FieldErrors) -> None:
    metric = mapping(external, "metric")
    if not metric.get("name"):
        errors.required(f"{path}.metric.name")
    labels: dict[str, str] = mapping(metric, "selector").get("matchLabels") or {}
    for key, value in labels.items():
        _expressions(value, f"{path}.metric.selector.matchLabels[{key}]", errors)
    for index, requirement in enumerate(objects(metric, "selector", "matchExpressions")):
        where = f"{path}.metric.selector.matchExpressions[{index}]"
        checks.selector_requirement(requirement, where, errors)
    _target(external, f"{path}.target", errors, utilized=False)


def _expressions(value: str, path: str, errors: FieldErrors) -> None:
    for found in _EXPRESSION.finditer(value):
        if found[1] is None or found[1].strip() not in _KNOWN_EXPRESSIONS:
            known = " or ".join(f"{{{{ {name} }}}}" for name in _KNOWN_EXPRESSIONS)
            errors.invalid(path, value, f"unknown expression; only {known} is replaced")


def _target(owner: JsonObject, path: str, errors: FieldErrors, *, utilized: bool) -> None:
    target = mapping(owner, "target")
    chosen = [field for field in _TARGETS if target.get(field) is not None]
    if not chosen:
        errors.required(path, f"must specify one of: {', '.join(_TARGETS)}")
        return
    for field in chosen[1:]:
        errors.forbidden(f"{path}.{field}", "may not specify more than 1 target")
    kind = target.get("type")
    if kind is not None and kind not in _TARGETS.values():
        errors.not_supported(f"{path}.type", kind, _TARGETS.values())
    elif kind is not None and kind != _TARGETS[chosen[0]]:
        errors.invalid(f"{path}.type", kind, f"must be {_TARGETS[chosen[0]]}, since {chosen[0]} is set")
    _target_value(chosen[0], target[chosen[0]], f"{path}.{chosen[0]}", errors, utilized=utilized)


def _target_value(field: str, value: str | int, path: str, errors: FieldErrors, *, utilized: bool) -> None:
    if field == "averageUtilization":
        if not utilized:
            errors.forbidden(path, "only cpu and memory have a utilization")
        elif int(value) < 1:
            errors.invalid(path, value, "must be greater than 0")
        return
    try:
        positive = Quantity.parse(value).nanos > 0
    except ValueError as error:
        errors.invalid(path, value, str(error))
    else:
        if not positive:
            errors.invalid(path, value, "must be positive")


def _rules(rules: JsonObject, path: str, errors: FieldErrors) -> None:
    window = rules.get("stabilizationWindowSeconds")
    if window is not None and not 0 <= window <= 3600:
        errors.invalid(f"{path}.stabilizationWindowSeconds", window, "must be between 0 and 3600, inclusive")
    if rules.get("selectPolicy") is not None:
        checks.one_of(rules["selectPolicy"], ("Max", "Min", "Disabled"), f"{path}.selectPolicy", errors)
    for index, policy in enumerate(objects(rules, "policies")):
        where = f"{path}.policies[{index}]"
        checks.one_of(policy.get("type", ""), ("Pods", "Percent"), f"{where}.type", errors)
        if policy.get("value", 0) <= 0:
            errors.invalid(f"{where}.value", policy.get("value", 0), "must be greater than zero")
        if not 1 <= policy.get("periodSeconds", 0) <= 1800:
            errors.invalid(
                f"{where}.periodSeconds", policy.get("periodSeconds", 0), "must be between 1 and 1800, inclusive"
            )
