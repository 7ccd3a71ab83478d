"""Node selectors, taints and tolerations of pods, volumes and nodes."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api import checks
from tarmac.api.schema import JsonObject
from tarmac.base import names
from tarmac.base.fielderrors import FieldErrors

TAINT_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")


def validate_node_selector(selector: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check a core NodeSelector: at least one term."""
    terms = selector.get("nodeSelectorTerms")
    if not terms:
        errors.required(f"{path}.nodeSelectorTerms", "must have at least one node selector term")
        return
    for index, term in enumerate(terms):
        validate_term(term, f"{path}.nodeSelectorTerms[{index}]", errors)


def validate_term(term: JsonObject, path: str, errors: FieldErrors, *, check_values: bool = True) -> None:
    """Check one term; preferences, unlike requirements, may have any values."""
    for index, requirement in enumerate(term.get("matchExpressions") or ()):
        at = f"{path}.matchExpressions[{index}]"
        checks.selector_requirement(requirement, at, errors, ordered=True, check_values=check_values)
    for index, requirement in enumerate(term.get("matchFields") or ()):
        _field_requirement(requirement, f"{path}.matchFields[{index}]", errors)


def _field_requirement(requirement: JsonObject, path: str, errors: FieldErrors) -> None:
    values, operator = requirement.get("values") or (), requirement.get("operator", "")
    if operator not in ("In", "NotIn"):
        errors.invalid(f"{path}.operator", operator, "not a valid selector operator")
    elif len(values) != 1:
        errors.required(
            f"{path}.values", "must be only one value when `operator` is 'In' or 'NotIn' for node field selector"
        )
    if requirement.get("key") != "metadata.name":
        errors.invalid(f"{path}.key", requirement.get("key", ""), "not a valid field selector key")
        return
    for index, value in enumerate(values):
        checks.dns_subdomain(value, f"{path}.values[{index}]", errors)


def validate_tolerations(tolerations: Sequence[JsonObject], path: str, errors: FieldErrors) -> None:
    """Check `spec.tolerations`."""
    for index, toleration in enumerate(tolerations):
        _validate_toleration(toleration, f"{path}[{index}]", errors)


def _validate_toleration(toleration: JsonObject, path: str, errors: FieldErrors) -> None:
    key, operator, value = toleration.get("key", ""), toleration.get("operator", ""), toleration.get("value", "")
    effect = toleration.get("effect", "")
    if key:
        checks.qualified_name(key, f"{path}.key", errors)
    elif operator != "Exists":
        errors.invalid(
            f"{path}.operator",
            operator,
            'operator must be Exists when `key` is empty, which means "match all values and all keys"',
        )
    if toleration.get("tolerationSeconds") is not None and effect != "NoExecute":
        errors.invalid(f"{path}.effect", effect, "effect must be 'NoExecute' when `tolerationSeconds` is set")
    if operator in ("Equal", ""):
        if messages := names.label_value(value):
            errors.invalid(f"{path}.operator", value, ";".join(messages))
    elif operator == "Exists":
        if value:
            errors.invalid(f"{path}.operator", value, "value must be empty when `operator` is 'Exists'")
    elif operator in ("Lt", "Gt"):
        errors.not_supported(f"{path}.operator", operator, ("Equal", "Exists", "Lt", "Gt"))
    else:
        errors.not_supported(f"{path}.operator", operator, ("Equal", "Exists"))
    if effect and effect not in TAINT_EFFECTS:
        errors.not_supported(f"{path}.effect", effect, TAINT_EFFECTS)


def validate_taints(taints: Sequence[JsonObject], path: str, errors: FieldErrors) -> None:
    """Check `spec.taints` of a node."""
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        at = f"{path}[{index}]"
        key, value, effect = taint.get("key", ""), taint.get("value", ""), taint.get("effect", "")
        checks.qualified_name(key, f"{at}.key", errors)
        if messages := names.label_value(value):
            errors.invalid(f"{at}.value", value, ";".join(messages))
        checks.one_of(effect, TAINT_EFFECTS, f"{at}.effect", errors)
        if (key, effect) in seen:
            shown = checks.go_struct(taint, ("Key", ""), ("Value", ""), ("Effect", ""), ("TimeAdded", None))
            errors.add("Duplicate", at, shown, "taints must be unique by key and effect pair")
        seen.add((key, effect))
