"""Validation of a pod's scheduling constraints: affinity, spreading, gates."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api import checks
from tarmac.api.kubernetes.core import nodeselection
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_ACTIONS = ("DoNotSchedule", "ScheduleAnyway")


def validate_affinity(affinity: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check `spec.affinity`."""
    if (node := affinity.get("nodeAffinity")) is not None:
        if (required := node.get(_REQUIRED)) is not None:
            nodeselection.validate_node_selector(required, f"{path}.nodeAffinity.{_REQUIRED}", errors)
        for index, term in enumerate(node.get(_PREFERRED) or ()):
            at = f"{path}.nodeAffinity.{_PREFERRED}[{index}]"
            _validate_weight(term, at, errors)
            nodeselection.validate_term(term.get("preference") or {}, f"{at}.preference", errors, check_values=False)
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind)
        if pods is None:
            continue
        for index, term in enumerate(pods.get(_REQUIRED) or ()):
            _validate_pod_term(term, f"{path}.{kind}.{_REQUIRED}[{index}]", errors)
        for index, term in enumerate(pods.get(_PREFERRED) or ()):
            at = f"{path}.{kind}.{_PREFERRED}[{index}]"
            _validate_weight(term, at, errors)
            _validate_pod_term(term.get("podAffinityTerm") or {}, f"{at}.podAffinityTerm", errors)


def _validate_weight(term: JsonObject, path: str, errors: FieldErrors) -> None:
    weight = term.get("weight", 0)
    if not 1 <= weight <= 100:
        errors.invalid(f"{path}.weight", weight, "must be in the range 1-100")


def _validate_pod_term(term: JsonObject, path: str, errors: FieldErrors) -> None:
    checks.label_selector(term.get("labelSelector"), f"{path}.labelSelector", errors)
    checks.label_selector(term.get("namespaceSelector"), f"{path}.namespaceSelector", errors)
    for name in term.get("namespaces") or ():
        checks.dns_label(name, f"{path}.namespace", errors)
    _validate_label_keys(term, path, errors)
    key = term.get("topologyKey", "")
    if not key:
        errors.required(f"{path}.topologyKey", "can not be empty")
    checks.qualified_name(key, f"{path}.topologyKey", errors)


def _validate_label_keys(term: JsonObject, path: str, errors: FieldErrors) -> None:
    match, mismatch = term.get("matchLabelKeys") or (), term.get("mismatchLabelKeys") or ()
    if not match and not mismatch:
        return
    selector = term.get("labelSelector")
    for field, keys in (("matchLabelKeys", match), ("mismatchLabelKeys", mismatch)):
        if keys and selector is None:
            errors.forbidden(f"{path}.{field}", "must not be specified when labelSelector is not set")
        elif keys:
            for index, key in enumerate(keys):
                checks.qualified_name(key, f"{path}.{field}[{index}]", errors)
    seen = set((selector or {}).get("matchLabels") or ())
    for expression in (selector or {}).get("matchExpressions") or ():
        key = expression.get("key", "")
        if key in match and key in seen:
            errors.invalid(f"{path}[{match.index(key)}]", key, "exists in both matchLabelKeys and labelSelector")
        seen.add(key)
    for index, key in enumerate(match):
        if key in mismatch:
            detail = "exists in both matchLabelKeys and mismatchLabelKeys"
            errors.invalid(f"{path}.matchLabelKeys[{index}]", key, detail)


def validate_spread(constraints: Sequence[JsonObject], path: str, errors: FieldErrors) -> None:
    """Check `spec.topologySpreadConstraints`."""
    for index, constraint in enumerate(constraints):
        at = f"{path}[{index}]"
        skew, action = constraint.get("maxSkew", 0), constraint.get("whenUnsatisfiable", "")
        key = constraint.get("topologyKey", "")
        if skew <= 0:
            errors.invalid(f"{at}.maxSkew", skew, "must be greater than zero")
        if not key:
            errors.required(f"{at}.topologyKey", "can not be empty")
        if action not in _ACTIONS:
            errors.not_supported(f"{at}.whenUnsatisfiable", action, _ACTIONS)
        for other in constraints[index + 1 :]:
            if (key, action) == (other.get("topologyKey", ""), other.get("whenUnsatisfiable", "")):
                errors.duplicate(f"{at}.{{topologyKey, whenUnsatisfiable}}", f"{{{key}, {action}}}")
                break
        _validate_spread_options(constraint, action, at, errors)
        _validate_label_keys(constraint, at, errors)
        checks.label_selector(constraint.get("labelSelector"), f"{at}.labelSelector", errors)


def _validate_spread_options(constraint: JsonObject, action: str, path: str, errors: FieldErrors) -> None:
    domains = constraint.get("minDomains")
    if domains is not None:
        if domains <= 0:
            errors.invalid(f"{path}.minDomains", domains, "must be greater than zero")
        if action != "DoNotSchedule":
            detail = f"can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}"
            errors.invalid(f"{path}.minDomains", domains, detail)
    for field in ("nodeAffinityPolicy", "nodeTaintsPolicy"):
        policy = constraint.get(field)
        if policy is not None and policy not in ("Honor", "Ignore"):
            errors.not_supported(f"{path}.{field}", policy, ("Honor", "Ignore"))


def validate_gates(gates: Sequence[JsonObject], path: str, errors: FieldErrors) -> None:
    """Check `spec.schedulingGates`."""
    seen: set[str] = set()
    for index, gate in enumerate(gates):
        name = gate.get("name", "")
        checks.qualified_name(name, f"{path}[{index}]", errors)
        if name in seen:
            errors.duplicate(f"{path}[{index}]", name)
        seen.add(name)


def merge_label_keys(pod: JsonObject) -> None:
    """Convert `matchLabelKeys` and `mismatchLabelKeys` to expressions over the pod's own labels, on create."""
    labels = pod["metadata"].get("labels") or {}
    spec = pod["spec"]
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        pods = affinity.get(kind) or {}
        terms = [*(pods.get(_REQUIRED) or ())]
        terms += [term.get("podAffinityTerm") or {} for term in pods.get(_PREFERRED) or ()]
        for term in terms:
            _merge(term, labels)
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge(constraint, labels)


def _merge(term: JsonObject, labels: dict[str, str]) -> None:
    selector = term.get("labelSelector")
    if selector is None:
        return
    for field, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(field) or ():
            if key in labels:
                expression = {"key": key, "operator": operator, "values": [labels[key]]}
                selector.setdefault("matchExpressions", []).append(expression)
