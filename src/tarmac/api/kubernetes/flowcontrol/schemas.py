"""FlowSchema."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tarmac.api import checks
from tarmac.api.kubernetes.changes import keep
from tarmac.api.kubernetes.flowcontrol.mandatory import EXEMPT, SCHEMAS
from tarmac.api.kubernetes.strategy import KubernetesStrategy
from tarmac.api.resource import Strategy
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

WITHOUT_EFFECT: Final = "stored without effect: requests here are balanced by user, and no priority level limits them"

_DEFAULT_PRECEDENCE: Final = 1000
_MAX_PRECEDENCE: Final = 10000
_METHODS: Final = ("ByNamespace", "ByUser")
_VERBS: Final = ("create", "delete", "deletecollection", "get", "list", "patch", "proxy", "update", "watch")
_EVERYTHING: Final = "*"
# kind of a subject -> its field
_SUBJECTS: Final = {"ServiceAccount": "serviceAccount", "User": "user", "Group": "group"}


class FlowControlStrategy(KubernetesStrategy):
    """Rules that both kinds of the group share."""

    has_status = True
    generation = True

    def prepare_for_create(self, obj: JsonObject) -> None:
        obj["status"] = {}

    def prepare_for_update(self, new: JsonObject, old: JsonObject) -> None:
        keep(new, old, "status")

    def prepare_for_status_update(self, new: JsonObject, old: JsonObject) -> None:
        # unlike most of Kubernetes' own kinds, only the status may change here
        Strategy.prepare_for_status_update(self, new, old)

    def validate_status_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        seen: set[str] = set()
        for index, condition in enumerate(checks.objects(new, "status", "conditions")):
            kind, path = condition.get("type", ""), f"status.conditions[{index}].type"
            if kind in seen:
                errors.duplicate(path, kind)
            seen.add(kind)
            if not kind:
                errors.required(path)

    def warnings(self, obj: JsonObject, old: JsonObject | None) -> list[str]:
        return [WITHOUT_EFFECT] if old is None or old.get("spec") != obj.get("spec") else []


class FlowSchemaStrategy(FlowControlStrategy):
    """FlowSchema."""

    def default(self, obj: JsonObject) -> None:
        spec = obj.setdefault("spec", {})
        if not spec.get("matchingPrecedence"):
            spec["matchingPrecedence"] = _DEFAULT_PRECEDENCE

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        name, spec = checks.metadata_of(obj).get("name", ""), obj["spec"]
        _validate_precedence(name, spec["matchingPrecedence"], errors)
        method = spec.get("distinguisherMethod")
        if method is not None and method.get("type") not in _METHODS:
            shown = checks.go_struct(method, ("Type", ""))
            errors.not_supported("spec.distinguisherMethod.type", shown, _METHODS)
        level, path = (
            checks.mapping(spec, "priorityLevelConfiguration").get("name", ""),
            "spec.priorityLevelConfiguration",
        )
        if level:
            checks.dns_subdomain(level, f"{path}.name", errors)
        else:
            errors.required(f"{path}.name", "must reference a priority level")
        for index, rule in enumerate(checks.objects(spec, "rules")):
            _validate_rule(rule, f"spec.rules[{index}]", errors)
        if name in SCHEMAS and spec != SCHEMAS[name]:
            errors.invalid("spec", spec, f"spec of '{name}' must equal the fixed value")


def _validate_precedence(name: str, precedence: int, errors: FieldErrors) -> None:
    path = "spec.matchingPrecedence"
    if precedence <= 0:
        errors.invalid(path, precedence, "must be a positive value")
    if precedence > _MAX_PRECEDENCE:
        errors.invalid(path, precedence, f"must not be greater than {_MAX_PRECEDENCE}")
    if precedence == 1 and name != EXEMPT:
        errors.invalid(path, precedence, "only the schema named 'exempt' may have matchingPrecedence 1")


def _validate_rule(rule: JsonObject, path: str, errors: FieldErrors) -> None:
    subjects = checks.objects(rule, "subjects")
    for index, subject in enumerate(subjects):
        _validate_subject(subject, f"{path}.subjects[{index}]", errors)
    if not subjects:
        errors.required(f"{path}.subjects", "subjects must contain at least one value")
    resources, urls = checks.objects(rule, "resourceRules"), checks.objects(rule, "nonResourceRules")
    if not resources and not urls:
        errors.required(path, "at least one of resourceRules and nonResourceRules has to be non-empty")
    for index, each in enumerate(resources):
        _validate_resources(each, f"{path}.resourceRules[{index}]", errors)
    for index, each in enumerate(urls):
        _validate_urls(each, f"{path}.nonResourceRules[{index}]", errors)


def _validate_subject(subject: JsonObject, path: str, errors: FieldErrors) -> None:
    kind = subject.get("kind", "")
    if kind not in _SUBJECTS:
        errors.not_supported(f"{path}.kind", kind, sorted(_SUBJECTS))
        return
    own = _SUBJECTS[kind]
    named, at = subject.get(own), f"{path}.{own}"
    if named is None:
        errors.required(at, f"{own} is required when subject kind is '{kind}'")
    elif not named.get("name"):
        errors.required(f"{at}.name")
    if named is not None and kind == "ServiceAccount":
        _validate_account(named, at, errors)
    for other, field in _SUBJECTS.items():
        if field != own and subject.get(field) is not None:
            errors.forbidden(f"{path}.{field}", f"{field} is forbidden when subject kind is not '{other}'")


def _validate_account(account: JsonObject, path: str, errors: FieldErrors) -> None:
    name, namespace = account.get("name", ""), account.get("namespace", "")
    if name not in ("", _EVERYTHING):
        checks.dns_subdomain(name, f"{path}.name", errors)
    if namespace:
        checks.dns_label(namespace, f"{path}.namespace", errors)
    else:
        errors.required(f"{path}.namespace", "must specify namespace for service account")


def _validate_resources(rule: JsonObject, path: str, errors: FieldErrors) -> None:
    _validate_verbs(rule.get("verbs") or [], path, errors)
    for field, noun in (("apiGroups", "api group"), ("resources", "resource")):
        values = rule.get(field) or []
        if not values:
            errors.required(f"{path}.{field}", f"resource rules must supply at least one {noun}")
        _alone(values, f"{path}.{field}", f"{noun}s", errors)
    namespaces, at = rule.get("namespaces") or [], f"{path}.namespaces"
    if not namespaces and not rule.get("clusterScope"):
        errors.required(at, "resource rules that are not cluster scoped must supply at least one namespace")
    elif not _alone(namespaces, at, "namespaces", errors):
        intro = "each member of this list must be '*' or a DNS-1123 label; "
        _each(namespaces, lambda each: [intro + problem for problem in names.dns1123_label(each)], at, errors)


def _validate_urls(rule: JsonObject, path: str, errors: FieldErrors) -> None:
    _validate_verbs(rule.get("verbs") or [], path, errors)
    paths, at = rule.get("nonResourceURLs") or [], f"{path}.nonResourceURLs"
    if not paths:
        errors.required(at, "nonResourceURLs must contain at least one value")
    elif not _alone(paths, at, "non-resource URLs", errors):
        _each(paths, _url_errors, at, errors)


def _validate_verbs(verbs: Sequence[str], path: str, errors: FieldErrors) -> None:
    at = f"{path}.verbs"
    if not verbs:
        errors.required(at, "verbs must contain at least one value")
    elif not _alone(verbs, at, "verbs", errors) and not {*verbs} <= {*_VERBS}:
        errors.not_supported(at, verbs, _VERBS)


def _alone(values: Sequence[str], path: str, noun: str, errors: FieldErrors) -> bool:
    """Return True if the values have the wildcard, which must stand alone."""
    if _EVERYTHING in values and len(values) > 1:
        errors.invalid(path, values, f"if '*' is present, must not specify other {noun}")
    return _EVERYTHING in values


def _each(values: Sequence[str], problems: Callable[[str], list[str]], path: str, errors: FieldErrors) -> None:
    for index, value in enumerate(values):
        checks.report(problems(value), value, f"{path}[{index}]", errors)


def _url_errors(path: str) -> list[str]:
    if not path:
        return ["must not be empty"]
    if not path.startswith("/"):
        return ["must start with slash"]
    if " " in path:
        return ["must not contain white-space"]
    if "//" in path:
        return ["must not contain double slash"]
    if path.count("*") > 1 or ("*" in path and not path.endswith("/*")):
        return ["wildcard can only do suffix matching"]
    return []
