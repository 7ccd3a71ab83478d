"""Validation of a Pod on create, and of the parts that every update checks again."""

from __future__ import annotations

from tarmac.api import checks
from tarmac.api.kubernetes.core import nodeselection
from tarmac.api.kubernetes.core.pods import (
    classfields,
    containers,
    placement,
    podnetwork,
    podvolumes,
    requirements,
    security,
)
from tarmac.api.kubernetes.core.pods.validationcache import PassedSpecs, text_of
from tarmac.api.mirrorpods import MIRROR, is_mirror
from tarmac.api.schema import JsonObject
from tarmac.base.digits import whole_number
from tarmac.base.fielderrors import FieldErrors

_DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
_MAX_INT32 = 2**31 - 1
_RESTART_POLICIES = ("Always", "OnFailure", "Never")
# checks of plain optional names: field -> check
_NAMED = (
    ("serviceAccountName", checks.dns_subdomain),
    ("nodeName", checks.dns_subdomain),
    ("hostname", checks.dns_label),
    ("subdomain", checks.dns_label),
    ("priorityClassName", checks.dns_subdomain),
    ("runtimeClassName", checks.dns_subdomain),
)

_sound = PassedSpecs()


def validate_create(pod: JsonObject, errors: FieldErrors) -> None:
    """Check a new Pod."""
    validate_pod(pod, errors)
    spec = pod["spec"]
    if spec.get("ephemeralContainers"):
        errors.forbidden("spec.ephemeralContainers", "cannot be set on create")
    if spec.get("nodeName") and spec.get("schedulingGates"):
        errors.forbidden("spec.nodeName", "cannot be set until all schedulingGates have been cleared")


def validate_pod(pod: JsonObject, errors: FieldErrors) -> None:
    """Check the rules for every version of a Pod."""
    spec = pod["spec"]
    if annotations := pod["metadata"].get("annotations"):
        _validate_annotations(annotations, spec, errors)
    known, before = text_of(spec), len(errors)
    if _sound.has(known):
        return
    _validate_spec(spec, pod["metadata"].get("name", ""), errors)
    if not spec.get("serviceAccountName"):
        _forbid_tokens_without_account(spec, errors)
    for field in ("containers", "initContainers"):
        for index, container in enumerate(spec.get(field) or ()):
            containers.image_whitespace(container, f"spec.{field}[{index}]", errors)
    if len(errors) == before:
        _sound.add(known)


def validate_template_spec(metadata: JsonObject, spec: JsonObject, errors: FieldErrors) -> None:
    """Check the annotations and the spec of a pod template, at `metadata` and `spec`."""
    if annotations := metadata.get("annotations"):
        _validate_annotations(annotations, spec, errors)
    known, before = text_of(spec), len(errors)
    if _sound.has(known):
        return
    _validate_spec(spec, "", errors)
    if spec.get("ephemeralContainers"):
        errors.forbidden("spec.ephemeralContainers", "ephemeral containers not allowed in pod template")
    elif len(errors) == before:
        _sound.add(known)


def _validate_annotations(annotations: dict[str, str], spec: JsonObject, errors: FieldErrors) -> None:
    if is_mirror(annotations) and not spec.get("nodeName"):
        detail = "must set spec.nodeName if mirror pod annotation is set"
        errors.invalid(f"metadata.annotations[{MIRROR}]", annotations[MIRROR], detail)
    cost = annotations.get(_DELETION_COST)
    if cost is not None and not _is_int32(cost):
        errors.invalid(f"metadata.annotations[{_DELETION_COST}]", cost, "must be a 32bit integer")


def validate_mirror_unchanged(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """Reject adding, changing or removing the mirror annotation after creation.

    The annotation removes permissions and gives exemptions.
    """
    after, before = (each["metadata"].get("annotations") or {} for each in (new, old))
    if after.get(MIRROR) == before.get(MIRROR) and (MIRROR in after) == (MIRROR in before):
        return
    change = "remove or update" if MIRROR in before else "add"
    errors.forbidden(f"metadata.annotations[{MIRROR}]", f"may not {change} mirror pod annotation")


def _is_int32(text: str) -> bool:
    # Go's ParseInt accepts no underscores and no spaces, and the cost also has no leading plus or zeros
    digits = text.removeprefix("-")
    if not digits.isascii() or not digits.isdigit() or (len(digits) > 1 and digits[0] == "0") or text == "-0":
        return False
    return whole_number(digits, 2**31 if text[0] == "-" else _MAX_INT32) is not None


def _validate_spec(spec: JsonObject, pod_name: str, errors: FieldErrors) -> None:
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        errors.required("spec.terminationGracePeriodSeconds")
    found = podvolumes.validate_volumes(spec.get("volumes") or (), pod_name, "spec.volumes", errors)
    context = containers.PodContext(
        volumes=found,
        claims=_validate_claims(spec, errors),
        grace=grace,
        restart_policy=spec.get("restartPolicy", ""),
        host_users=spec.get("hostUsers") is not False,
    )
    regular, init = spec.get("containers") or (), spec.get("initContainers") or ()
    containers.validate_containers(regular, "spec.containers", context, errors)
    if init:
        containers.validate_init_containers(init, regular, "spec.initContainers", context, errors)
    if ephemeral := spec.get("ephemeralContainers"):
        containers.validate_ephemeral_containers(
            ephemeral, [*regular, *init], "spec.ephemeralContainers", context, errors
        )
    if spec.get("resources") is not None:
        requirements.validate_pod_resources(spec, "spec.resources", errors)
    if listed := spec.get(classfields.OTHER_FORM):
        classes = checks.mapping(spec, "resources", "classes")
        classfields.validate_other_form(listed, classes, f"spec.{classfields.OTHER_FORM}", errors)
    if context.restart_policy not in _RESTART_POLICIES:
        checks.one_of(context.restart_policy, _RESTART_POLICIES, "spec.restartPolicy", errors)
    podnetwork.validate_network(spec, errors)
    security.validate_pod_security_context(spec, "spec.securityContext", errors)
    _validate_placement(spec, errors)
    _validate_names(spec, errors)
    _validate_rest(spec, errors)


def _validate_claims(spec: JsonObject, errors: FieldErrors) -> frozenset[str]:
    claims = spec.get("resourceClaims")
    if not claims:
        return frozenset()
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        path, name = f"spec.resourceClaims[{index}]", claim.get("name", "")
        if not name:
            errors.required(f"{path}.name")
        elif name in seen:
            errors.duplicate(f"{path}.name", name)
        else:
            checks.dns_label(name, f"{path}.name", errors)
            seen.add(name)
        sources = [key for key in ("resourceClaimName", "resourceClaimTemplateName") if claim.get(key) is not None]
        shown = checks.go_struct(claim, ("Name", ""), ("ResourceClaimName", None), ("ResourceClaimTemplateName", None))
        if len(sources) > 1:
            detail = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            errors.invalid(path, shown, detail)
        elif not sources:
            errors.invalid(path, shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for key in sources:
            checks.dns_subdomain(claim[key], f"{path}.{key}", errors)
    return frozenset(seen)


def _validate_placement(spec: JsonObject, errors: FieldErrors) -> None:
    if selector := spec.get("nodeSelector"):
        checks.labels(selector, "spec.nodeSelector", errors)
    if affinity := spec.get("affinity"):
        placement.validate_affinity(affinity, "spec.affinity", errors)
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        checks.qualified_name(gate.get("conditionType", ""), f"spec.readinessGates[{index}].conditionType", errors)
    if gates := spec.get("schedulingGates"):
        placement.validate_gates(gates, "spec.schedulingGates", errors)
    if constraints := spec.get("topologySpreadConstraints"):
        placement.validate_spread(constraints, "spec.topologySpreadConstraints", errors)
    if tolerations := spec.get("tolerations"):
        nodeselection.validate_tolerations(tolerations, "spec.tolerations", errors)


def _validate_names(spec: JsonObject, errors: FieldErrors) -> None:
    for field, check in _NAMED:
        value = spec.get(field)
        if value:
            check(value, f"spec.{field}", errors)


def _validate_rest(spec: JsonObject, errors: FieldErrors) -> None:
    deadline = spec.get("activeDeadlineSeconds")
    if deadline is not None and not 1 <= deadline <= _MAX_INT32:
        errors.invalid("spec.activeDeadlineSeconds", deadline, f"must be between 1 and {_MAX_INT32}, inclusive")
    policy = spec.get("preemptionPolicy")
    if policy is not None:
        checks.one_of(policy, ("PreemptLowerPriority", "Never"), "spec.preemptionPolicy", errors)
    if overhead := spec.get("overhead"):
        requirements.validate_overhead(overhead, "spec.overhead", errors)
    system = spec.get("os")
    if system is not None:
        name = system.get("name", "")
        if not name:
            errors.required("spec.os.name")
        elif name not in ("linux", "windows"):
            errors.not_supported("spec.os", name, ("linux", "windows"))


def _forbid_tokens_without_account(spec: JsonObject, errors: FieldErrors) -> None:
    for index, volume in enumerate(spec.get("volumes") or ()):
        for position, source in enumerate(checks.objects(volume, "projected", "sources")):
            if source.get("serviceAccountToken") is not None:
                errors.forbidden(
                    f"spec.volumes[{index}].projected.sources[{position}].serviceAccountToken",
                    "must not be specified when serviceAccountName is not set",
                )
