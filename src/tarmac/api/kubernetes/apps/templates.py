"""Pod templates: defaults, validation, and the label selector that must match them."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api import checks
from tarmac.api.kubernetes.core.pods import validation
from tarmac.api.kubernetes.core.pods.defaults import default_pod_spec
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors
from tarmac.base.selectors import LabelMatcher

_MISMATCH = "`selector` does not match template `labels`"


def default_template(template: JsonObject) -> None:
    """Fill in the defaults of a template's pod spec."""
    default_pod_spec(template.setdefault("spec", {}))


def template_of(obj: JsonObject) -> JsonObject:
    """Return `spec.template`, created if it is missing."""
    return obj.setdefault("spec", {}).setdefault("template", {})


def validate_template(template: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check labels, annotations and the pod spec. Paths of causes begin with `path`."""
    metadata = template.get("metadata") or {}
    if labels := metadata.get("labels"):
        checks.labels(labels, f"{path}.labels", errors)
    found = FieldErrors()
    with found:
        validation.validate_template_spec(template.get("metadata") or {}, template.get("spec") or {}, found)
    for cause in found:
        errors.add(cause.kind, f"{path}.{cause.path}", cause.value, cause.detail)


def validate_replicated(obj: JsonObject, kind: str, errors: FieldErrors) -> None:
    """Check `spec.template` of a controller that keeps pods running for ever."""
    template = obj["spec"].get("template") or {}
    path = "spec.template"
    validate_template(template, path, errors)
    spec = template.get("spec") or {}
    if (policy := spec.get("restartPolicy")) and policy != "Always":
        errors.not_supported(f"{path}.spec.restartPolicy", policy, ("Always",))
    if spec.get("activeDeadlineSeconds") is not None:
        errors.forbidden(f"{path}.spec.activeDeadlineSeconds", f"activeDeadlineSeconds in {kind} is not Supported")


def validate_selector(obj: JsonObject, kind: str, errors: FieldErrors) -> None:
    """Check that `spec.selector` is there, is not empty, and matches the labels of `spec.template`."""
    selector, template = obj["spec"].get("selector"), obj["spec"].get("template") or {}
    if selector is None:
        errors.required("spec.selector")
    else:
        before = len(errors)
        checks.label_selector(selector, "spec.selector", errors)
        if not selector.get("matchLabels") and not selector.get("matchExpressions"):
            errors.invalid("spec.selector", selector, f"empty selector is invalid for {kind}")
            return
        if len(errors) > before:
            errors.invalid("spec.selector", selector, "invalid label selector")
            return
    validate_match(selector, template, "spec.template", errors)


def validate_match(selector: JsonObject | None, template: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check that a label selector matches the labels of a template; None matches nothing."""
    labels = (template.get("metadata") or {}).get("labels")
    try:
        matches = LabelMatcher.from_object(selector).matches(labels or {})
    except ValueError:  # reported by the check of the selector
        return
    if not matches:
        errors.invalid(f"{path}.metadata.labels", labels and dict(sorted(labels.items())), _MISMATCH)


def validate_counts(spec: JsonObject, fields: Sequence[str], errors: FieldErrors) -> None:
    """Check optional numbers that must not be negative."""
    for field in fields:
        value = spec.get(field)
        if value is not None:
            checks.non_negative(value, f"spec.{field}", errors)
