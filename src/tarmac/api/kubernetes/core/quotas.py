"""ResourceQuota: hard limits on the content of a namespace, optionally only for some of its pods."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api import checks
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.core.nodeclasses import CONTAINER_LEVEL, POD_LEVEL
from tarmac.api.kubernetes.core.pods import classrules
from tarmac.api.kubernetes.resourcenames import (
    is_standard_quota,
    quantity,
    quota_resource_name,
    resource_list,
    round_up,
)
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

CLASS_LISTS = (POD_LEVEL, CONTAINER_LEVEL)
_PODS = frozenset({"pods"})
_COMPUTE = _PODS | {"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"}
# scope -> resources that it can be applied to
_SCOPES = {
    "Terminating": _COMPUTE,
    "NotTerminating": _COMPUTE,
    "BestEffort": _PODS,
    "NotBestEffort": _COMPUTE,
    "PriorityClass": _COMPUTE,
    "CrossNamespacePodAffinity": _COMPUTE,
    "VolumeAttributesClass": frozenset({"persistentvolumeclaims", "requests.storage"}),
}
_CONFLICTS = (("BestEffort", "NotBestEffort"), ("Terminating", "NotTerminating"))
_EXISTS_ONLY = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


class ResourceQuotaStrategy(KubernetesStrategy):
    """ResourceQuota."""

    has_status = True
    returns_deleted = True

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        round_up(spec.get("hard"))
        for owner in (spec, obj.get("status") or {}):
            for field in CLASS_LISTS:
                classrules.store_list(owner, field)
        obj.setdefault("status", {})

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        hard = spec.get("hard") or {}
        resource_list(hard, "spec.hard", quota_resource_name, errors)
        scopes = spec.get("scopes") or []
        for scope in scopes:
            if scope not in _SCOPES:
                errors.invalid("spec.scopes", scopes, "unsupported scope")
            _validate_applicable(scope, hard, "spec.scopes", scopes, errors)
        _validate_conflicts(scopes, "spec.scopes", scopes, errors)
        if (selector := spec.get("scopeSelector")) is not None:
            _validate_selector(selector, hard, scopes, errors)
        _validate_classes(spec, errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        scopes, before = new["spec"].get("scopes") or [], old["spec"].get("scopes") or []
        if set(scopes) != set(before):
            errors.invalid("spec.scopes", scopes, checks.IMMUTABLE)

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        for side in ("hard", "used"):
            amounts = checks.mapping(new, "status", side)
            resource_list(amounts, f"status.{side}", quota_resource_name, errors)
        for field in CLASS_LISTS:
            classrules.type_list(checks.objects(new, "status", field), f"status.{field}", 0, errors)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        if old is not None:
            return []
        hard, found = obj["spec"].get("hard") or {}, list[str]()
        for name in ("cpu", "memory", "storage", "ephemeral-storage"):
            request = f"requests.{name}"
            if request not in hard and name in ("cpu", "memory") and name in hard:
                request = name
            limit = f"limits.{name}"
            if request in hard and limit in hard and quantity(hard[request]) > quantity(hard[limit]):
                found.append(f"ResourceQuota {request} ({hard[request]}) should be less than {limit} ({hard[limit]})")
        return found


def _validate_classes(spec: JsonObject, errors: FieldErrors) -> None:
    for field in CLASS_LISTS:
        if types := spec.get(field):
            classrules.type_list(types, f"spec.{field}", 0, errors)
    of_pods = {item.get("name") for item in spec.get(POD_LEVEL) or ()}
    for index, item in enumerate(spec.get(CONTAINER_LEVEL) or ()):
        if item.get("name") in of_pods:
            path = f"spec.{CONTAINER_LEVEL}[{index}].name"
            errors.invalid(path, item["name"], f"is in {POD_LEVEL}, too: a type is counted by pods or by containers")


def _validate_applicable(scope: str, hard: JsonObject, path: str, shown: object, errors: FieldErrors) -> None:
    allowed = _SCOPES.get(scope)
    for name in sorted(hard):
        if allowed is not None and is_standard_quota(name) and name not in allowed:
            errors.invalid(path, shown, "unsupported scope applied to resource")


def _validate_conflicts(scopes: Sequence[str], path: str, shown: object, errors: FieldErrors) -> None:
    for pair in _CONFLICTS:
        if all(scope in scopes for scope in pair):
            errors.invalid(path, shown, "conflicting scopes")


def _validate_selector(selector: JsonObject, hard: JsonObject, scopes: list[str], errors: FieldErrors) -> None:
    path = "spec.scopeSelector.matchExpressions"
    selected: list[str] = []
    for requirement in selector.get("matchExpressions") or ():
        scope, operator = requirement.get("scopeName", ""), requirement.get("operator", "")
        values = requirement.get("values") or []
        if scope not in _SCOPES:
            errors.invalid(f"{path}.scopeName", scope, "unsupported scope")
        _validate_applicable(scope, hard, path, selector, errors)
        if scope in _SCOPES and scope not in ("PriorityClass", "VolumeAttributesClass") and operator != "Exists":
            errors.invalid(f"{path}.operator", operator, _EXISTS_ONLY)
        if operator in ("In", "NotIn"):
            if not values:
                detail = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"
                errors.required(f"{path}.values", detail)
        elif operator in ("Exists", "DoesNotExist"):
            if values:
                detail = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                errors.invalid(f"{path}.values", values, detail)
        else:
            errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
        selected.append(scope)
    _validate_conflicts(selected, path, scopes, errors)
