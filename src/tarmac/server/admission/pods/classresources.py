"""ClassResources: validates QoS classes in requests, or rejects them with the feature gate of that name off.

Annotations that request classes must be valid, in a Pod and in the template of a Workload. The containers of a Pod with
its own kernel must agree on a class: they share one cgroup, the sandbox's.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tarmac.api.checks import mapping, objects
from tarmac.api.compute.names import ANNOTATION_RUNTIME_CLASS
from tarmac.api.kubernetes.core.limitranges import DEFAULT_CLASSES
from tarmac.api.kubernetes.core.pods.classannotations import validate_annotations
from tarmac.api.kubernetes.core.pods.classfields import container_path
from tarmac.api.kubernetes.core.pods.podclasses import (
    annotation_giving,
    asks_for_classes,
    class_annotations,
    class_fields,
    classes_of_containers,
)
from tarmac.api.kubernetes.core.quotas import CLASS_LISTS
from tarmac.api.kubernetes.runtimeclasses import BUCKET as RUNTIME_CLASSES
from tarmac.api.kubernetes.runtimeclasses import OWN_KERNEL_HANDLERS, SANDBOX_CLASS
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.decide.derived.machines import MACHINE_CONTAINER
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET as PODS
from tarmac.server.admission.pods.podplugin import pod_of
from tarmac.server.reader import Reader

_QUOTAS = "core/resourcequotas"
_RANGES = "core/limitranges"
_OFF = "may not be set: the feature gate ClassResources is off"
_WORKLOADS = "compute.datumapis.com/workloads"


class ClassResourceValidation(AdmissionPlugin):
    """Checks Pods at creation and resize, and templates on every write. Unchanged requests are not checked again."""

    name = "ClassResources"

    def __init__(self, reader: Reader) -> None:
        self._reader = reader

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        if resource.bucket == PODS:
            return (subresource, operation) in (("", "CREATE"), ("resize", "UPDATE"))
        return resource.bucket == _WORKLOADS and subresource == "" and operation in ("CREATE", "UPDATE")

    def validate(self, attributes: Attributes) -> None:
        with FieldErrors() as errors:
            if attributes.resource.bucket == PODS:
                self._check_pod(pod_of(attributes), attributes.old, errors)
            else:
                self._check_template(attributes.obj or {}, attributes.old or {}, errors)
        if errors:
            raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)

    def _check_pod(self, pod: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        if not asks_for_classes(pod) or (old is not None and class_fields(pod["spec"]) == class_fields(old["spec"])):
            return
        _check_annotations(pod, "metadata.annotations", errors)
        if self._has_own_kernel(pod["spec"].get("runtimeClassName", "")):
            _one_class_of_a_type(pod, "", errors)

    def _check_template(self, workload: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
        pod = _pod_of_template(workload)
        if not asks_for_classes(pod) or pod == _pod_of_template(old):
            return
        path = "spec.template.metadata.annotations"
        _check_annotations(pod, path, errors)
        if self._has_own_kernel(pod["spec"]["runtimeClassName"]):
            _one_class_of_a_type(pod, path, errors)

    def _has_own_kernel(self, runtime_class: str) -> bool:
        found = self._reader.get(RUNTIME_CLASSES, runtime_class) if runtime_class else None
        return found is not None and found.get("handler") in OWN_KERNEL_HANDLERS


def _pod_of_template(workload: JsonObject) -> JsonObject:
    """Return the parts of a Workload's Pods that concern classes."""
    template = mapping(workload, "spec", "template")
    annotations: Mapping[str, str] = mapping(template, "metadata", "annotations")
    sandbox = mapping(template, "spec", "runtime", "sandbox")
    lists = {field: _named(objects(sandbox, field)) for field in ("initContainers", "containers")}
    machine = {"containers": [{"name": MACHINE_CONTAINER}]}
    runtime = annotations.get(ANNOTATION_RUNTIME_CLASS) or SANDBOX_CLASS
    spec: JsonObject = {"runtimeClassName": runtime, **(lists if sandbox else machine)}
    return {"metadata": {"annotations": class_annotations(annotations)}, "spec": spec}


def _named(containers: list[JsonObject]) -> list[JsonObject]:
    return [{"name": container.get("name", "")} for container in containers]


def _check_annotations(pod: JsonObject, path: str, errors: FieldErrors) -> None:
    spec = pod["spec"]
    containers = {each.get("name", ""): each for each in (*objects(spec, "initContainers"), *spec["containers"])}
    validate_annotations(mapping(pod, "metadata", "annotations"), containers, spec, path, errors)


def _one_class_of_a_type(pod: JsonObject, annotations: str, errors: FieldErrors) -> None:
    """Require one class per type. `annotations`: the path of the requesting annotations, if there are no fields."""
    first: dict[str, tuple[str, str]] = {}
    for container, classes in classes_of_containers(pod):
        for kind, name in classes.items():
            holder, known = first.setdefault(kind, (container.get("name", ""), name))
            if known != name:
                detail = (
                    f"container {container.get('name', '')} asks for class {kind}/{name} and container {holder} for "
                    f"{kind}/{known}, but the containers of runtime class {pod['spec']['runtimeClassName']} share one "
                    "kernel of their own: ask for one class, or run them in pods of their own"
                )
                errors.forbidden(_asked_at(pod, container, kind, annotations), detail)


def _asked_at(pod: JsonObject, container: JsonObject, kind: str, annotations: str) -> str:
    if annotations:
        return f"{annotations}[{annotation_giving(pod, container, kind)}]"
    return f"{container_path(pod['spec'], container.get('name', ''))}.resources.classes[{kind}]"


class ClassResourceRejection(AdmissionPlugin):
    """With the feature gate off, no class field may be added or changed. Checks every write that could contain one.

    Stored fields stay, may be written back, and may be removed.
    """

    name = "ClassResources"

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        if operation not in ("CREATE", "UPDATE"):
            return False
        if resource.bucket == PODS:
            return subresource in ("", "resize")
        return resource.bucket in (_QUOTAS, _RANGES) and subresource == ""

    def validate(self, attributes: Attributes) -> None:
        bucket = attributes.resource.bucket
        said = [*_fields(bucket, attributes.obj)]
        if not said:
            return
        stored = {field.key: field.value for field in _fields(bucket, attributes.old)}
        with FieldErrors() as errors:
            for field in said:
                if field.key not in stored or _adds(field.value, stored[field.key]):
                    errors.forbidden(field.path, _OFF)
        if errors:
            raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)


def _adds(value: Any, stored: Any) -> bool:
    """Return True if the value has a new or changed part. A removal is neither."""
    if isinstance(value, dict):
        return any(stored.get(key) != each for key, each in value.items())
    return any(each not in stored for each in value)


class _Field(NamedTuple):
    """A class field: a key that is stable if neighbouring fields change, its path and its value."""

    key: str
    path: str
    value: Any


def _fields(bucket: str, obj: JsonObject | None) -> Iterator[_Field]:
    """Yield the class fields of a Pod, a ResourceQuota or a LimitRange."""
    if obj is None:
        return
    if bucket == PODS:
        yield from _fields_of_pod(obj)
    elif bucket == _QUOTAS:
        spec = mapping(obj, "spec")
        yield from (_Field(field, f"spec.{field}", spec[field]) for field in CLASS_LISTS if spec.get(field))
    else:
        for index, item in enumerate(objects(obj, "spec", "limits")):
            if classes := item.get(DEFAULT_CLASSES):
                yield _Field(item.get("type", ""), f"spec.limits[{index}].{DEFAULT_CLASSES}", classes)


def _fields_of_pod(pod: JsonObject) -> Iterator[_Field]:
    spec = pod["spec"]
    if classes := mapping(spec, "resources", "classes"):
        yield _Field("", "spec.resources.classes", classes)
    for field in ("initContainers", "containers"):
        for index, container in enumerate(objects(spec, field)):
            if classes := mapping(container, "resources", "classes"):
                yield _Field(container.get("name", ""), f"spec.{field}[{index}].resources.classes", classes)
