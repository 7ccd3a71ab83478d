"""Job: defaults, the generated selector, validation, and permitted changes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tarmac.api import checks
from tarmac.api.decode.limits import MAX_LABELS
from tarmac.api.kubernetes.apps.strategy import ControllerStrategy
from tarmac.api.kubernetes.apps.templates import default_template, validate_match, validate_template
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors

_UID_LABEL: Final = "batch.kubernetes.io/controller-uid"
_NAME_LABEL: Final = "batch.kubernetes.io/job-name"
_OLD_UID_LABEL: Final = "controller-uid"
_OLD_NAME_LABEL: Final = "job-name"
_MAX_INT32: Final = 2**31 - 1
_COUNTS = (
    "parallelism",
    "completions",
    "activeDeadlineSeconds",
    "backoffLimit",
    "ttlSecondsAfterFinished",
    "backoffLimitPerIndex",
    "maxFailedIndexes",
)
_IMMUTABLE = ("selector", "completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy")
# of the template of a suspended Job that has not started: where its pods may run
_SCHEDULING = ("nodeSelector", "affinity", "tolerations", "schedulingGates")


class JobStrategy(ControllerStrategy):
    """Pods that run to completion. Selector and labels come from the Job's uid unless `manualSelector` is set."""

    orphans_dependents = True
    orphan_warning = (
        "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them "
        "or set propagationPolicy=Orphan to suppress this warning"
    )

    def default(self, obj: JsonObject) -> None:
        super().default(obj)
        default_job_spec(obj["spec"])
        labels = (obj["spec"]["template"].get("metadata") or {}).get("labels")
        if labels and not obj["metadata"].get("labels"):
            obj["metadata"]["labels"] = dict(labels)

    def prepare_for_create(self, obj: JsonObject) -> None:
        super().prepare_for_create(obj)
        if not obj["spec"].get("manualSelector"):
            _generate_selector(obj)
            # a Job without labels has those of its template, also the generated ones
            template, metadata = obj["spec"]["template"], obj["metadata"]
            metadata["labels"] = {**template["metadata"]["labels"], **(metadata.get("labels") or {})}

    def validate(self, obj: JsonObject, errors: FieldErrors) -> None:
        spec = obj["spec"]
        selector = spec.get("selector")
        if selector is None:
            errors.required("spec.selector")
        else:
            checks.label_selector(selector, "spec.selector", errors)
            generated = {"matchLabels": {_UID_LABEL: obj["metadata"].get("uid", "")}}
            if not spec.get("manualSelector") and selector != generated:
                errors.invalid("spec.selector", selector, "`selector` not auto-generated")
        validate_match(selector, spec["template"], "spec.template", errors)
        if len(labels := checks.mapping(spec, "template", "metadata", "labels")) > MAX_LABELS:
            errors.too_many("spec.template.metadata.labels", len(labels), MAX_LABELS)  # with the generated ones
        validate_job_spec(spec, "spec", errors)

    def validate_update(self, new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        validate_job_spec(new["spec"], "spec", errors)
        spec, before = new["spec"], old["spec"]
        for field in _IMMUTABLE:
            checks.immutable(spec.get(field), before.get(field), f"spec.{field}", errors)
        _validate_completions(spec, before, errors)
        template, earlier = spec["template"], before["template"]
        if before.get("suspend") and not (old.get("status") or {}).get("startTime"):
            template, earlier = _without_placement(template), _without_placement(earlier)
        checks.immutable(template, earlier, "spec.template", errors)


def default_job_spec(spec: JsonObject) -> None:
    """Fill in the defaults of a Job's spec."""
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = spec["parallelism"] = 1
    spec.setdefault("parallelism", 1)
    spec.setdefault("backoffLimit", 6 if spec.get("backoffLimitPerIndex") is None else _MAX_INT32)
    spec.setdefault("completionMode", "NonIndexed")
    spec.setdefault("suspend", False)
    spec.setdefault("manualSelector", False)
    failures = spec.get("podFailurePolicy")
    spec.setdefault("podReplacementPolicy", "TerminatingOrFailed" if failures is None else "Failed")
    for rule in (failures or {}).get("rules") or ():
        for condition in rule.get("onPodConditions") or ():
            condition.setdefault("status", "True")


def _generate_selector(obj: JsonObject) -> None:
    """Label the pods with the Job's name and uid, and select them by uid.

    Labels that a client has set stay; the validation finds those that contradict the selector.
    """
    name, uid = obj["metadata"].get("name", ""), obj["metadata"].get("uid", "")
    template = obj["spec"]["template"]
    metadata = template.get("metadata") or {}
    labels = metadata.get("labels") or {}
    for key, value in (
        (_OLD_NAME_LABEL, name), (_NAME_LABEL, name), (_OLD_UID_LABEL, uid), (_UID_LABEL, uid),
    ):  # fmt: skip
        labels.setdefault(key, value)
    metadata["labels"], template["metadata"] = labels, metadata
    selector = obj["spec"].get("selector") or {}
    matched = selector.get("matchLabels") or {}
    matched.setdefault(_UID_LABEL, uid)
    selector["matchLabels"], obj["spec"]["selector"] = matched, selector


def validate_job_spec(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    """Check the spec of a Job, or of the template of one."""
    _validate_counts(spec, path, errors)
    mode = spec.get("completionMode")
    if mode is not None and mode not in ("NonIndexed", "Indexed"):
        errors.not_supported(f"{path}.completionMode", mode, ("NonIndexed", "Indexed"))
    if mode == "Indexed":
        if spec.get("completions") is None:
            errors.required(f"{path}.completions", "when completion mode is Indexed")
    else:
        _forbid_indexed_fields(spec, path, errors)
    validate_template(spec["template"], f"{path}.template", errors)
    policy = (spec["template"].get("spec") or {}).get("restartPolicy")
    where = f"{path}.template.spec.restartPolicy"
    if policy not in ("OnFailure", "Never"):
        errors.required(where, 'valid values: "OnFailure", "Never"')
    elif policy != "Never" and spec.get("podFailurePolicy") is not None:
        errors.invalid(where, policy, 'only "Never" is supported when podFailurePolicy is specified')
    replacement = spec.get("podReplacementPolicy")
    if replacement is not None and replacement not in ("Failed", "TerminatingOrFailed"):
        errors.not_supported(f"{path}.podReplacementPolicy", replacement, ("Failed", "TerminatingOrFailed"))


def _validate_counts(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    for field in _COUNTS:
        value = spec.get(field)
        if value is not None:
            checks.non_negative(value, f"{path}.{field}", errors)


def _forbid_indexed_fields(spec: JsonObject, path: str, errors: FieldErrors) -> None:
    for field in ("backoffLimitPerIndex", "maxFailedIndexes", "successPolicy"):
        if (value := spec.get(field)) is not None:
            errors.invalid(f"{path}.{field}", value, "requires indexed completion mode")


def _validate_completions(spec: JsonObject, before: JsonObject, errors: FieldErrors) -> None:
    """Completions are fixed, but for Indexed Jobs whose parallelism changes to the same number."""
    now, then = spec.get("completions"), before.get("completions")
    elastic = spec.get("completionMode") == "Indexed" and now is not None and now == spec.get("parallelism")
    if now != then and not elastic:
        errors.invalid("spec.completions", now, checks.IMMUTABLE)


def _without_placement(template: JsonObject, fields: Sequence[str] = _SCHEDULING) -> JsonObject:
    spec = {key: value for key, value in (template.get("spec") or {}).items() if key not in fields}
    metadata = {
        key: value for key, value in (template.get("metadata") or {}).items() if key not in ("labels", "annotations")
    }
    return {"metadata": metadata, "spec": spec}


def default_job_template(template: JsonObject) -> None:
    """Fill in the defaults of a CronJob's `jobTemplate`: those of its pods only, the rest when the Job is created."""
    default_template(template.setdefault("spec", {}).setdefault("template", {}))
