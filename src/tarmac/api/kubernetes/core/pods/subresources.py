"""Updates through `pods/ephemeralcontainers` and `pods/resize`: each changes one aspect of an immutable spec."""

from __future__ import annotations

from tarmac.api.kubernetes.changes import describe, keep
from tarmac.api.kubernetes.core.pods.classfields import validate_classes_resized
from tarmac.api.kubernetes.core.pods.podresources import is_sidecar, qos_class
from tarmac.api.kubernetes.core.pods.validation import validate_pod
from tarmac.api.mirrorpods import is_mirror
from tarmac.api.schema import JsonObject
from tarmac.base.fielderrors import FieldErrors


def prepare_ephemeral_update(new: JsonObject, old: JsonObject) -> None:
    """Keep everything but ephemeral containers: `pods/ephemeralcontainers` changes nothing else."""
    containers = (new.get("spec") or {}).get("ephemeralContainers")
    new["spec"] = dict(old["spec"])
    if containers:
        new["spec"]["ephemeralContainers"] = containers
    else:
        new["spec"].pop("ephemeralContainers", None)
    _restore(new, old)


def _restore(new: JsonObject, old: JsonObject) -> None:
    """Keep status, labels, annotations and owners: neither subresource changes them."""
    keep(new, old, "status")
    for field in ("labels", "annotations", "ownerReferences"):
        keep(new["metadata"], old["metadata"], field)


def validate_ephemeral_update(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """Check that ephemeral containers are only added, never changed or removed."""
    if is_mirror(old["metadata"].get("annotations")):
        errors.forbidden("[]", "static pods do not support ephemeral containers")
        return
    validate_pod(new, errors)
    current = {container.get("name"): container for container in new["spec"].get("ephemeralContainers") or ()}
    for container in old["spec"].get("ephemeralContainers") or ():
        name = container.get("name")
        if name not in current:
            errors.forbidden("spec.ephemeralContainers", f'existing ephemeral containers "{name}" may not be removed\n')
        elif current[name] != container:
            changes = describe(container, current[name], "")
            detail = f'existing ephemeral containers "{name}" may not be changed\n{changes}'
            errors.forbidden("spec.ephemeralContainers", detail)


def prepare_resize(new: JsonObject, old: JsonObject) -> None:
    """Keep all but resources and resize policies: `pods/resize` changes only those. Names and order must match.

    Of the pod's own resources it changes only the classes.
    """
    spec = dict(old["spec"])
    for field in ("containers", "initContainers"):
        wanted, current = (new.get("spec") or {}).get(field) or [], old["spec"].get(field) or []
        if len(wanted) != len(current) or any(
            a.get("name") != b.get("name") for a, b in zip(wanted, current, strict=True)
        ):
            return  # validation rejects it, and must see the requested containers
        if wanted:
            pairs = zip(current, wanted, strict=True)
            spec[field] = [keep(keep(dict(was), ask, "resources"), ask, "resizePolicy") for was, ask in pairs]
    _take_pod_classes(spec, (new.get("spec") or {}).get("resources") or {})
    new["spec"] = spec
    _restore(new, old)


def _take_pod_classes(spec: JsonObject, wanted: JsonObject) -> None:
    before = spec.get("resources") or {}
    if wanted.get("classes") == before.get("classes"):
        return
    spec["resources"] = keep(dict(before), wanted, "classes")
    if not spec["resources"]:
        del spec["resources"]


def validate_resize(new: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """Permit changes of cpu, memory and classes of running containers only, without a change of the QoS class."""
    if is_mirror(old["metadata"].get("annotations")):
        errors.forbidden("[]", "static pods cannot be resized")
        return
    validate_pod(new, errors)
    spec, before = new["spec"], old["spec"]
    quality = (old.get("status") or {}).get("qosClass") or qos_class(before)
    if quality != qos_class(spec):
        errors.invalid("spec", quality, "Pod QOS Class may not change as a result of resizing")
    if not _node_can_resize(old):
        errors.forbidden("spec", "Pod running on node without support for resize")
    pod_level = _has_amounts(spec.get("resources")) or _has_amounts(before.get("resources"))
    if pod_level and not _only_classes_differ(spec, before):
        errors.forbidden(
            "[]",
            "resize of pods with pod-level resources is forbidden when InPlacePodLevelResourcesVerticalScalingEnabled "
            "feature gate is disabled",
        )
        return
    if not _same_containers(spec, before, errors):
        return
    for field in ("initContainers", "containers"):
        for index, (now, was) in enumerate(zip(spec.get(field) or (), before.get(field) or (), strict=True)):
            if field == "containers" or is_sidecar(was):
                _only_more_resources(now, was, f"spec.{field}[{index}].resources", errors)
    _only_cpu_and_memory(spec, before, errors)
    validate_classes_resized(new, old, errors)


def _only_classes_differ(spec: JsonObject, before: JsonObject) -> bool:
    return spec != before and _without_classes(spec) == _without_classes(before)


def _without_classes(spec: JsonObject) -> JsonObject:
    masked = _mask_classes(spec)
    for field in ("containers", "initContainers"):
        if field in spec:
            masked[field] = [_mask_classes(container) for container in spec[field]]
    return masked


def _mask_classes(owner: JsonObject) -> JsonObject:
    return {**owner, "resources": {**(owner.get("resources") or {}), "classes": None}}


def _has_amounts(resources: JsonObject | None) -> bool:
    return bool(resources and (resources.get("requests") or resources.get("limits")))


def _node_can_resize(pod: JsonObject) -> bool:
    for status in (pod.get("status") or {}).get("containerStatuses") or ():
        if (status.get("state") or {}).get("running") is not None:
            return status.get("resources") is not None
    return True


def _same_containers(spec: JsonObject, before: JsonObject, errors: FieldErrors) -> bool:
    same = True
    for field in ("containers", "initContainers"):
        now, was = spec.get(field) or (), before.get(field) or ()
        if len(now) != len(was):
            errors.forbidden(f"spec.{field}", f"{field} may not be added or removed on resize")
            same = False
            continue
        for index, (container, old) in enumerate(zip(now, was, strict=True)):
            if container.get("name") != old.get("name"):
                errors.forbidden(f"spec.{field}[{index}].name", f"{field} may not be renamed or reordered on resize")
                same = False
    return same


def _only_more_resources(now: JsonObject, was: JsonObject, path: str, errors: FieldErrors) -> None:
    new, old = now.get("resources") or {}, was.get("resources") or {}
    for side in ("requests", "limits"):
        if (old.get(side) or {}).keys() - (new.get(side) or {}).keys():
            errors.forbidden(f"{path}.{side}", f"resource {side} cannot be removed")


def _only_cpu_and_memory(spec: JsonObject, before: JsonObject, errors: FieldErrors) -> None:
    for field in ("containers", "initContainers"):
        for now, was in zip(spec.get(field) or (), before.get(field) or (), strict=True):
            resizable = field == "containers" or is_sidecar(now)
            compared = _without_cpu_and_memory(now) if resizable else now
            if compared == (_without_cpu_and_memory(was) if resizable else was):
                continue
            if not resizable:
                errors.forbidden("spec", "resources for non-sidecar init containers are immutable")
            elif field == "containers":
                errors.forbidden("spec", "only cpu and memory resources are mutable")
            else:
                errors.forbidden("spec", "only cpu and memory resources for sidecar containers are mutable")


def _without_cpu_and_memory(container: JsonObject) -> JsonObject:
    masked = _mask_classes(container)
    resources = masked["resources"]
    masked["resources"] = resources | {
        side: {name: amount for name, amount in (resources.get(side) or {}).items() if name not in ("cpu", "memory")}
        for side in ("requests", "limits")
    }
    return masked
