"""StatefulSet."""

from __future__ import annotations

from typing import Any, ClassVar

from tarmac.api import checks
from tarmac.api.kubernetes.apps.limits import is_zero, validate_limit, validate_share
from tarmac.api.kubernetes.apps.strategy import ControllerStrategy
from tarmac.api.kubernetes.apps.templates import validate_counts, validate_replicated, validate_selector
from tarmac.api.kubernetes.core.volumeclaims import ClaimStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_MUTABLE = (
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
)
_ONLY_MUTABLE = (
    "updates to statefulset spec for fields other than "
    + ", ".join(f"'{field}'" for field in _MUTABLE[:-1])
    + f" and '{_MUTABLE[-1]}' are forbidden"
)
_RETENTION = ("Retain", "Delete")
_claims = ClaimStrategy()


class StatefulSetStrategy(ControllerStrategy):
    """Pods with names and disks of their own."""

    empty_status: ClassVar[dict[str, Any]] = {"replicas": 0, "availableReplicas": 0}

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        spec = obj["spec"]
        if not spec.get("podManagementPolicy"):
            spec["podManagementPolicy"] = "OrderedReady"
        update = spec.setdefault("updateStrategy", {})
        if not update.get("type"):
            update["type"] = "RollingUpdate"
            update.setdefault("rollingUpdate", {})
        if update["type"] == "RollingUpdate" and update.get("rollingUpdate") is not None:
            update["rollingUpdate"].setdefault("partition", 0)
        retention = spec.setdefault("persistentVolumeClaimRetentionPolicy", {})
        for field in ("whenDeleted", "whenScaled"):
            if not retention.get(field):
                retention[field] = "Retain"
        spec.setdefault("replicas", 1)
        spec.setdefault("revisionHistoryLimit", 10)
        for claim in spec.get("volumeClaimTemplates") or ():
            claim["kind"], claim["apiVersion"] = "PersistentVolumeClaim", "v1"
            _claims.default(claim)

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        policy = spec["podManagementPolicy"]
        if policy not in ("OrderedReady", "Parallel"):
            errors.invalid("spec.podManagementPolicy", policy, "must be 'OrderedReady' or 'Parallel'")
        _validate_update_strategy(spec["updateStrategy"], errors)
        for field, choice in spec["persistentVolumeClaimRetentionPolicy"].items():
            if choice not in _RETENTION:
                errors.not_supported(f"spec.persistentVolumeClaimRetentionPolicy.{field}", choice, _RETENTION)
        validate_counts(spec, ("replicas", "minReadySeconds", "revisionHistoryLimit"), errors)
        if (start := (spec.get("ordinals") or {}).get("start")) is not None:
            checks.non_negative(start, "spec.ordinals.start", errors)
        validate_selector(obj, "statefulset", errors)
        validate_replicated(_as_made(obj), "StatefulSet", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        fixed, before = (
            {key: value for key, value in each["spec"].items() if key not in _MUTABLE} for each in (new, old)
        )
        if fixed != before:
            errors.forbidden("spec", _ONLY_MUTABLE)


def _as_made(obj: JsonObject) -> JsonObject:
    """Return the object with the template as its pods get it: with volumes of their claims, and names of their own."""
    spec, template = obj["spec"], obj["spec"].get("template") or {}
    names = [checks.mapping(each, "metadata").get("name", "") for each in spec.get("volumeClaimTemplates") or ()]
    volumes = [{"name": name, "persistentVolumeClaim": {"claimName": name}} for name in dict.fromkeys(names)]
    volumes += [each for each in checks.objects(template, "spec", "volumes") if each.get("name") not in names]
    kept = {key: value for key, value in (template.get("spec") or {}).items() if key not in ("hostname", "subdomain")}
    made = {**template, "spec": {**kept, **({"volumes": volumes} if volumes else {})}}
    return {**obj, "spec": {**spec, "template": made}}


def _validate_update_strategy(update: JsonObject, errors: FieldErrors) -> None:
    path, rolling = "spec.updateStrategy", update.get("rollingUpdate")
    match update["type"]:
        case "OnDelete":
            if rolling is not None:
                errors.invalid(f"{path}.rollingUpdate", rolling, "only allowed for updateStrategy 'RollingUpdate'")
        case "RollingUpdate":
            if rolling is not None:
                _validate_rolling(rolling, f"{path}.rollingUpdate", errors)
        case _:
            shown = checks.go_struct(update, ("Type", ""), ("RollingUpdate", None))
            errors.invalid(path, shown, "must be 'RollingUpdate' or 'OnDelete'")


def _validate_rolling(rolling: JsonObject, path: str, errors: FieldErrors) -> None:
    checks.non_negative(rolling.get("partition") or 0, f"{path}.partition", errors)
    unavailable = rolling.get("maxUnavailable")
    if unavailable is not None:
        validate_limit(unavailable, f"{path}.maxUnavailable", errors)
        if is_zero(unavailable):
            errors.invalid(f"{path}.maxUnavailable", unavailable, "cannot be 0")
        validate_share(unavailable, f"{path}.maxUnavailable", errors)
