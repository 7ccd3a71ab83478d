"""DaemonSet."""

from __future__ import annotations

from typing import Any, ClassVar

from tarmac.api import checks
from tarmac.api.kubernetes.apps.limits import is_zero, validate_limit, validate_share
from tarmac.api.kubernetes.apps.strategy import ControllerStrategy
from tarmac.api.kubernetes.apps.templates import validate_counts, validate_match, validate_replicated, validate_selector
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_TEMPLATE_GENERATION = "deprecated.daemonset.template.generation"


class DaemonSetStrategy(ControllerStrategy):
    """One pod for each node. An annotation counts the changes of its template, as in Kubernetes."""

    empty_status: ClassVar[dict[str, Any]] = {
        "currentNumberScheduled": 0,
        "numberMisscheduled": 0,
        "desiredNumberScheduled": 0,
        "numberReady": 0,
    }

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        if _TEMPLATE_GENERATION not in checks.annotations_of(obj):
            _count_template(obj, 1)
        spec = obj["spec"]
        update = spec.setdefault("updateStrategy", {})
        if not update.get("type"):
            update["type"] = "RollingUpdate"
        if update["type"] == "RollingUpdate":
            rolling = update.setdefault("rollingUpdate", {})
            rolling.setdefault("maxUnavailable", 1)
            rolling.setdefault("maxSurge", 0)
        spec.setdefault("revisionHistoryLimit", 10)

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        super().prepare_for_update(new, old)
        before = checks.annotations_of(old).get(_TEMPLATE_GENERATION, "0")
        count = int(before) if before.isascii() and before.isdigit() and len(before) < 19 else 0
        _count_template(new, count + (new["spec"].get("template") != old["spec"].get("template")))

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        if spec.get("selector") is None:
            validate_match(None, spec["template"], "spec.template", errors)
        else:
            validate_selector(obj, "daemonset", errors)
        validate_replicated(obj, "DaemonSet", errors)
        validate_counts(spec, ("minReadySeconds", "revisionHistoryLimit"), errors)
        _validate_update_strategy(spec["updateStrategy"], errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        checks.immutable(new["spec"].get("selector"), old["spec"].get("selector"), "spec.selector", errors)


def _count_template(obj: JsonObject, count: int) -> None:
    metadata = obj["metadata"]
    metadata["annotations"] = (metadata.get("annotations") or {}) | {_TEMPLATE_GENERATION: str(count)}


def _validate_update_strategy(update: JsonObject, errors: FieldErrors) -> None:
    path = "spec.updateStrategy"
    match update["type"]:
        case "OnDelete":
            return
        case "RollingUpdate":
            _validate_rolling(update["rollingUpdate"], f"{path}.rollingUpdate", errors)
        case _:
            shown = checks.go_struct(update, ("Type", ""), ("RollingUpdate", None))
            errors.not_supported(path, shown, ("RollingUpdate", "OnDelete"))


def _validate_rolling(rolling: JsonObject, path: str, errors: FieldErrors) -> None:
    unavailable, surge = rolling["maxUnavailable"], rolling["maxSurge"]
    validate_limit(unavailable, f"{path}.maxUnavailable", errors)
    validate_share(unavailable, f"{path}.maxUnavailable", errors)
    validate_limit(surge, f"{path}.maxSurge", errors)
    validate_share(surge, f"{path}.maxSurge", errors)
    if not is_zero(unavailable) and not is_zero(surge):
        errors.invalid(f"{path}.maxSurge", surge, "may not be set when maxUnavailable is non-zero")
    elif is_zero(unavailable) and is_zero(surge):
        errors.required(f"{path}.maxUnavailable", "cannot be 0 when maxSurge is 0")
