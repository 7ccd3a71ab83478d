"""PodDisruptionBudget of policy."""

from __future__ import annotations

from tarmac.api.kubernetes import checks
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.strategy import NativeStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

_EVICTION_POLICIES = ("AlwaysAllow", "IfHealthyBudget")
_SPEC = (("MinAvailable", None), ("Selector", None), ("MaxUnavailable", None), ("UnhealthyPodEvictionPolicy", None))
_COUNTS = ("disruptionsAllowed", "currentHealthy", "desiredHealthy", "expectedPods")


class DisruptionBudgetStrategy(NativeStrategy):
    """PodDisruptionBudget."""

    has_status = True
    generation = True
    allow_unconditional_update = False

    def default(self, obj: JsonObject) -> None:
        obj.setdefault("spec", {})

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = dict.fromkeys(_COUNTS, 0)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        if spec.get("minAvailable") is not None and spec.get("maxUnavailable") is not None:
            errors.invalid("spec", checks.go_struct(spec, *_SPEC), "minAvailable and maxUnavailable cannot be both set")
        for field in ("minAvailable", "maxUnavailable"):
            if (limit := spec.get(field)) is not None:
                _validate_limit(limit, f"spec.{field}", errors)
        checks.label_selector(spec.get("selector"), "spec.selector", errors)
        policy = spec.get("unhealthyPodEvictionPolicy")
        if policy is not None and policy not in _EVICTION_POLICIES:
            errors.not_supported("spec.unhealthyPodEvictionPolicy", policy, _EVICTION_POLICIES)

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        status = new.get("status") or {}
        for field in _COUNTS:
            checks.non_negative(status.get(field, 0), f"status.{field}", errors)


def _validate_limit(limit: int | str, path: str, errors: FieldErrors) -> None:
    if isinstance(limit, int):
        checks.non_negative(limit, path, errors)
    elif messages := names.percent(limit):
        checks.report(messages, limit, path, errors)
    elif int(limit.removesuffix("%")) > 100:
        errors.invalid(path, limit, "must not be greater than 100%")
