"""ClassResources: what the feature gate of that name decides about classes in requests.

With the gate on, annotations that ask for classes must make sense, in a Pod and in the template of a Workload, and the
containers of a Pod that has a kernel of its own must agree: they are all in one cgroup, the sandbox's. With the gate
off, no class field may be added or changed; what is stored stays, and may be written back.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from tarmac.api.kubernetes.checks import mapping, objects
from tarmac.api.kubernetes.core.limitranges import DEFAULT_CLASSES
from tarmac.api.kubernetes.core.pods.classannotations import validate_annotations
from tarmac.api.kubernetes.core.pods.classfields import container_path
from tarmac.api.kubernetes.core.pods.podclasses import asks_for_classes, class_annotations, classes_of_containers
from tarmac.api.kubernetes.core.quotas import CLASS_LISTS
from tarmac.api.kubernetes.runtimeclasses import BUCKET as RUNTIME_CLASSES
from tarmac.api.kubernetes.runtimeclasses import OWN_KERNEL_HANDLERS
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.decide.children.pods import MACHINE_CONTAINER
from tarmac.server.admission.chain import Attributes, Operation, Plugin
from tarmac.server.admission.pods import BUCKET as PODS
from tarmac.server.admission.pods import pod_of
from tarmac.server.reader import Reader

_WORKLOADS = "compute.datumapis.com/workloads"
_QUOTAS = "core/resourcequotas"
_RANGES = "core/limitranges"
_OFF = "may not be set: the feature gate ClassResources is off"


class ClassResources(Plugin):
    """The gate is on."""

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
                _check_template(attributes.obj or {}, attributes.old or {}, errors)
        if errors:
            raise invalid(attributes.resource.group, attributes.resource.kind, attributes.name, errors)

    def _check_pod(self, pod: JsonObject, old: JsonObject | None, errors: FieldErrors) -> None:
        if not asks_for_classes(pod) or (old is not None and not _asks_otherwise(pod, old)):
            return
        spec = pod["spec"]
        containers = {each.get("name", ""): each for each in (*objects(spec, "initContainers"), *spec["containers"])}
        annotations = mapping(pod, "metadata", "annotations")
        validate_annotations(annotations, containers, spec, "metadata.annotations", errors)
        name = spec.get("runtimeClassName", "")
        if mapping(self._reader.get(RUNTIME_CLASSES, name) if name else None).get("handler") in OWN_KERNEL_HANDLERS:
            _one_class_of_a_type(pod, name, errors)


def _asks_otherwise(pod: JsonObject, old: JsonObject) -> bool:
    return [*_fields_of_pod(pod)] != [*_fields_of_pod(old)]


def _one_class_of_a_type(pod: JsonObject, runtime: str, errors: FieldErrors) -> None:
    first: dict[str, tuple[str, str]] = {}
    for container, classes in classes_of_containers(pod):
        for kind, name in classes.items():
            holder, known = first.setdefault(kind, (container.get("name", ""), name))
            if known != name:
                detail = (
                    f"container {container.get('name', '')} asks for class {kind}/{name} and container {holder} for "
                    f"{kind}/{known}, but the containers of runtime class {runtime} share one kernel of their own: "
                    "ask for one class, or run them in pods of their own"
                )
                path = container_path(pod["spec"], container.get("name", ""))
                errors.forbidden(f"{path}.resources.classes[{kind}]", detail)


def _check_template(workload: JsonObject, old: JsonObject, errors: FieldErrors) -> None:
    """What an update does not change is not looked at again."""
    said, runtime = _asked_by_template(workload)
    if not said or (said, runtime) == _asked_by_template(old):
        return
    containers = (*objects(runtime, "sandbox", "initContainers"), *objects(runtime, "sandbox", "containers"))
    names = [each.get("name", "") for each in containers] or [MACHINE_CONTAINER]
    path = "spec.template.metadata.annotations"
    validate_annotations(said, {name: {} for name in names}, {}, path, errors)


def _asked_by_template(workload: JsonObject) -> tuple[Mapping[str, str], JsonObject]:
    template = mapping(workload, "spec", "template")
    return class_annotations(mapping(template, "metadata", "annotations")), mapping(template, "spec", "runtime")


class NoClassResources(Plugin):
    """The gate is off."""

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
    """Whether something in it is new or changed; taking something out is neither."""
    if isinstance(value, dict):
        return any(stored.get(key) != each for key, each in value.items())
    return any(each not in stored for each in value)


class _Field(NamedTuple):
    """One class field: by what it is found again when others beside it come and go, where it is, what it says."""

    key: str
    path: str
    value: Any


def _fields(bucket: str, obj: JsonObject | None) -> Iterator[_Field]:
    """The class fields of a Pod, a ResourceQuota or a LimitRange."""
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
