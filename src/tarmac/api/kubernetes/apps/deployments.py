"""Deployment."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.kubernetes.apps.limits import is_zero, validate_limit, validate_share
from tarmac.api.kubernetes.apps.strategy import ControllerStrategy
from tarmac.api.kubernetes.apps.templates import validate_counts, validate_replicated, validate_selector
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_QUARTER = "25%"


class DeploymentStrategy(ControllerStrategy):
    """Rolling updates through ReplicaSets. Annotations are copied to them, so a change of them is a new generation."""

    generation_fields = ("spec", "metadata.annotations")

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        spec = obj["spec"]
        spec.setdefault("replicas", 1)
        strategy = spec.setdefault("strategy", {})
        if not strategy.get("type"):
            strategy["type"] = "RollingUpdate"
        if strategy["type"] == "RollingUpdate":
            rolling = strategy.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", _QUARTER)
            rolling.setdefault("maxSurge", _QUARTER)
        spec.setdefault("revisionHistoryLimit", 10)
        spec.setdefault("progressDeadlineSeconds", 600)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        validate_counts(spec, ("replicas", "minReadySeconds", "revisionHistoryLimit"), errors)
        validate_selector(obj, "deployment", errors)
        validate_replicated(obj, "ReplicaSet", errors)
        _validate_strategy(spec["strategy"], errors)
        _validate_deadline(spec, errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        checks.immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector", errors)


def _validate_strategy(strategy: JsonObject, errors: FieldErrors) -> None:
    path = "spec.strategy"
    rolling = strategy.get("rollingUpdate")
    match strategy["type"]:
        case "Recreate":
            if rolling is not None:
                detail = "may not be specified when strategy `type` is 'Recreate'"
                errors.forbidden(f"{path}.rollingUpdate", detail)
        case "RollingUpdate":
            _validate_rolling(rolling or {}, f"{path}.rollingUpdate", errors)
        case _:
            shown = checks.go_struct(strategy, ("Type", ""), ("RollingUpdate", None))
            errors.not_supported(path, shown, ("Recreate", "RollingUpdate"))


def _validate_rolling(rolling: JsonObject, path: str, errors: FieldErrors) -> None:
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    validate_limit(unavailable, f"{path}.maxUnavailable", errors)
    validate_limit(surge, f"{path}.maxSurge", errors)
    if is_zero(unavailable) and is_zero(surge):
        errors.invalid(f"{path}.maxUnavailable", unavailable, "may not be 0 when `maxSurge` is 0")
    validate_share(unavailable, f"{path}.maxUnavailable", errors)


def _validate_deadline(spec: JsonObject, errors: FieldErrors) -> None:
    deadline = spec.get("progressDeadlineSeconds")
    if deadline is None:
        return
    checks.non_negative(deadline, "spec.progressDeadlineSeconds", errors)
    if deadline <= spec.get("minReadySeconds", 0):
        errors.invalid("spec.progressDeadlineSeconds", deadline, "must be greater than minReadySeconds")
