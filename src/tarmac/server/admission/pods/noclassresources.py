"""ClassResources with the feature gate off: no class field may be added or changed.

Stored fields stay, may be written back, and may be removed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from tarmac.api.checks import mapping, objects
from tarmac.api.kubernetes.core.limitranges import DEFAULT_CLASSES
from tarmac.api.kubernetes.core.quotas import CLASS_LISTS
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.status import invalid
from tarmac.base.fielderrors import FieldErrors
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET as PODS

_QUOTAS = "core/resourcequotas"
_RANGES = "core/limitranges"
_OFF = "may not be set: the feature gate ClassResources is off"


class ClassResourceRejection(AdmissionPlugin):
    """Checks every write that could contain a class field."""

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
