"""Roles and bindings of rbac.authorization.k8s.io."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

GROUP = "rbac.authorization.k8s.io"


class RoleStrategy(KubernetesStrategy):
    """Role."""

    allow_create_on_update = True
    namespaced = True

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        for index, rule in enumerate(obj.get("rules") or ()):
            _validate_rule(rule, self.namespaced, f"rules[{index}]", errors)


class ClusterRoleStrategy(RoleStrategy):
    """ClusterRole."""

    namespaced = False

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        super().validate(obj, errors)
        aggregation = obj.get("aggregationRule")
        if aggregation is None:
            return
        path, selectors = "aggregationRule.clusterRoleSelectors", aggregation.get("clusterRoleSelectors") or []
        if not selectors:
            errors.required(path, "at least one clusterRoleSelector required if aggregationRule is non-nil")
        for index, selector in enumerate(selectors):
            checks.label_selector(selector, f"{path}[{index}]", errors)


class RoleBindingStrategy(KubernetesStrategy):
    """RoleBinding."""

    allow_create_on_update = True
    namespaced = True
    role_kinds = ("Role", "ClusterRole")

    def default(self, obj: JsonObject) -> None:
        reference = obj.setdefault("roleRef", {})
        if not reference.get("apiGroup"):
            reference["apiGroup"] = GROUP
        for subject in obj.get("subjects") or ():
            if not subject.get("apiGroup") and subject.get("kind") in ("User", "Group"):
                subject["apiGroup"] = GROUP

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        reference = obj.get("roleRef") or {}
        if reference.get("apiGroup") != GROUP:
            errors.not_supported("roleRef.apiGroup", reference.get("apiGroup", ""), (GROUP,))
        if reference.get("kind") not in self.role_kinds:
            errors.not_supported("roleRef.kind", reference.get("kind", ""), self.role_kinds)
        name = reference.get("name")
        if not name:
            errors.required("roleRef.name")
        else:
            checks.report(names.path_segment_name(name), name, "roleRef.name", errors)
        for index, subject in enumerate(obj.get("subjects") or ()):
            _validate_subject(subject, self.namespaced, f"subjects[{index}]", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        self.validate(new, errors)
        if new.get("roleRef") != old.get("roleRef"):
            shown = checks.go_struct(new.get("roleRef") or {}, ("APIGroup", ""), ("Kind", ""), ("Name", ""))
            errors.invalid("roleRef", shown, "cannot change roleRef")


class ClusterRoleBindingStrategy(RoleBindingStrategy):
    """ClusterRoleBinding."""

    namespaced = False
    role_kinds = ("ClusterRole",)


def _validate_rule(rule: JsonObject, namespaced: bool, path: str, errors: FieldErrors) -> None:
    if not rule.get("verbs"):
        errors.required(f"{path}.verbs", "verbs must contain at least one value")
    urls = rule.get("nonResourceURLs")
    if urls:
        at = f"{path}.nonResourceURLs"
        if namespaced:
            errors.invalid(at, urls, "namespaced rules cannot apply to non-resource URLs")
        if any(rule.get(field) for field in ("apiGroups", "resources", "resourceNames")):
            errors.invalid(at, urls, "rules cannot apply to both regular resources and non-resource URLs")
        return
    if not rule.get("apiGroups"):
        errors.required(f"{path}.apiGroups", "resource rules must supply at least one api group")
    if not rule.get("resources"):
        errors.required(f"{path}.resources", "resource rules must supply at least one resource")


def _validate_subject(subject: JsonObject, namespaced: bool, path: str, errors: FieldErrors) -> None:
    name, kind, group = subject.get("name", ""), subject.get("kind", ""), subject.get("apiGroup", "")
    if not name:
        errors.required(f"{path}.name")
    if kind == "ServiceAccount":
        if name:
            checks.dns_subdomain(name, f"{path}.name", errors)
        if group:
            errors.not_supported(f"{path}.apiGroup", group, ("",))
        if not namespaced and not subject.get("namespace"):
            errors.required(f"{path}.namespace")
    elif kind in ("User", "Group"):
        if group != GROUP:
            errors.not_supported(f"{path}.apiGroup", group, (GROUP,))
    else:
        errors.not_supported(f"{path}.kind", kind, ("ServiceAccount", "User", "Group"))
