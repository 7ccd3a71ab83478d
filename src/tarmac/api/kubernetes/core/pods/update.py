"""Permitted changes of a Pod after its creation.

A Pod's spec is almost entirely immutable. Instead of comparing field by field, the check copies the new spec and
restores the old values of all mutable fields; any remaining difference is not permitted.
"""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.kubernetes.changes import describe, keep
from tarmac.api.kubernetes.core import nodeselection
from tarmac.api.kubernetes.core.pods.classfields import validate_annotations_unchanged
from tarmac.api.kubernetes.core.pods.validation import validate_mirror_unchanged, validate_pod
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_MAX_INT32 = 2**31 - 1
_UPDATABLE = ",".join(
    (
        "`spec.containers[*].image`",
        "`spec.initContainers[*].image`",
        "`spec.activeDeadlineSeconds`",
        "`spec.tolerations` (only additions to existing tolerations)",
        "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)",
    )
)
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def validate_update(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """Check an update of the Pod itself."""
    validate_pod(new, errors)
    validate_mirror_unchanged(new, old, errors)
    validate_annotations_unchanged(new, old, errors)
    spec, before = new["spec"], old["spec"]
    for field in ("containers", "initContainers"):
        if len(spec.get(field) or ()) != len(before.get(field) or ()):
            errors.forbidden(f"spec.{field}", "pod updates may not add or remove containers")
            return
    if not _deadline_may_change(spec, before, errors):
        return
    _only_added_tolerations(spec.get("tolerations") or (), before.get("tolerations") or (), errors)
    _only_removed_gates(spec.get("schedulingGates") or (), before.get("schedulingGates") or (), errors)
    if spec == before:
        return
    masked = _mask_updatable(spec, before)
    if before.get("schedulingGates"):
        _mask_placement(masked, before, errors)
    if masked != before:
        changes = describe(before, masked)
        errors.forbidden("spec", f"pod updates may not change fields other than {_UPDATABLE}\n{changes}")


def _deadline_may_change(spec: JsonObject, before: JsonObject, errors: FieldErrors) -> bool:
    path, now, was = (
        "spec.activeDeadlineSeconds",
        spec.get("activeDeadlineSeconds"),
        before.get("activeDeadlineSeconds"),
    )
    if now is None:
        if was is not None:
            errors.invalid(path, now, "must not update from a positive integer to nil value")
        return True
    if not 0 <= now <= _MAX_INT32:
        errors.invalid(path, now, f"must be between 0 and {_MAX_INT32}, inclusive")
        return False
    if was is not None and was < now:
        errors.invalid(path, now, "must be less than or equal to previous value")
        return False
    return True


def _only_added_tolerations(new: Sequence[JsonObject], old: Sequence[JsonObject], errors: FieldErrors) -> None:
    kept = [_without_seconds(toleration) for toleration in new]
    for toleration in old:
        if _without_seconds(toleration) not in kept:
            errors.forbidden("spec.tolerations", "existing toleration can not be modified except its tolerationSeconds")
            return
    if new != old:
        nodeselection.validate_tolerations(new, "spec.tolerations", errors)


def _without_seconds(toleration: JsonObject) -> JsonObject:
    return {key: value for key, value in toleration.items() if key != "tolerationSeconds"}


def _only_removed_gates(new: Sequence[JsonObject], old: Sequence[JsonObject], errors: FieldErrors) -> None:
    known = {gate.get("name") for gate in old}
    for index, gate in enumerate(new):
        if gate.get("name") not in known:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate.get('name', '')}'"
            errors.forbidden(f"spec.schedulingGates[{index}].name", detail)


def _mask_updatable(spec: JsonObject, before: JsonObject) -> JsonObject:
    masked = dict(spec)
    for field in ("containers", "initContainers"):
        if field in spec:
            pairs = zip(spec[field], before.get(field) or (), strict=False)
            masked[field] = [keep(dict(container), old, "image") for container, old in pairs]
    for field in ("activeDeadlineSeconds", "schedulingGates", "tolerations"):
        keep(masked, before, field)
    if before.get("terminationGracePeriodSeconds", 0) < 0 and spec.get("terminationGracePeriodSeconds") == 1:
        keep(masked, before, "terminationGracePeriodSeconds")
    return masked


def _mask_placement(masked: JsonObject, before: JsonObject, errors: FieldErrors) -> None:
    """Permit narrowing a gated pod: more node selector labels, more required node affinity."""
    selector, old_selector = masked.get("nodeSelector") or {}, before.get("nodeSelector") or {}
    if any(selector.get(key) != value for key, value in old_selector.items()):
        detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)"
        errors.invalid("spec.nodeSelector", selector, detail)
    keep(masked, before, "nodeSelector")
    affinity, old_affinity = masked.get("affinity") or {}, before.get("affinity") or {}
    node, old_node = affinity.get("nodeAffinity"), old_affinity.get("nodeAffinity")
    if node == old_node:
        return
    _only_added_affinity(node or {}, old_node or {}, errors)
    merged = keep(dict(affinity), old_affinity, "nodeAffinity")
    if merged or "affinity" in before:
        masked["affinity"] = merged
    else:
        masked.pop("affinity", None)


def _only_added_affinity(node: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    path = f"spec.affinity.nodeAffinity.{_REQUIRED}.nodeSelectorTerms"
    old_terms = (old.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    terms = (node.get(_REQUIRED) or {}).get("nodeSelectorTerms") or ()
    if not old_terms:
        return
    if len(old_terms) != len(terms):
        errors.invalid(path, terms, "no additions/deletions to non-empty NodeSelectorTerms list are allowed")
        return
    for index, (term, was) in enumerate(zip(terms, old_terms, strict=True)):
        if not _term_only_grew(term, was):
            errors.invalid(f"{path}[{index}]", term, "only additions are allowed (no mutations or deletions)")


def _term_only_grew(term: JsonObject, old: JsonObject) -> bool:
    fields = ("matchExpressions", "matchFields")
    if not any(old.get(field) for field in fields):
        return not any(term.get(field) for field in fields)
    return all((term.get(field) or [])[: len(old.get(field) or [])] == (old.get(field) or []) for field in fields)
