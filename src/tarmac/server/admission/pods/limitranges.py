"""LimitRanger: default amounts and classes for containers without any, and bounds for all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import chain

from tarmac.api.kubernetes.core.limitranges import DEFAULT_CLASSES
from tarmac.api.kubernetes.core.pods.podclasses import classes_of_containers, default_classes
from tarmac.api.kubernetes.core.pods.podresources import aggregate
from tarmac.api.kubernetes.resourcenames import quantity
from tarmac.api.resource import Resource
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.base.quantity import Quantity, six_places
from tarmac.server.admission.chain import AdmissionPlugin, Attributes, Operation
from tarmac.server.admission.pods.podplugin import BUCKET, containers_of, pod_of
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader

_RANGES = "core/limitranges"
_CLAIMS = "core/persistentvolumeclaims"
_ANNOTATION = "kubernetes.io/limit-ranger"
_MAX_INT64 = 2**63 - 1


class LimitRanger(AdmissionPlugin):
    """Applies every LimitRange of the namespace."""

    name = "LimitRanger"

    def __init__(self, reader: Reader, *, class_resources: bool = False) -> None:
        """`class_resources`: the feature gate, without which classes have no defaults."""
        self._reader = reader
        self._class_resources = class_resources

    def applies_to(self, resource: Resource, subresource: str, operation: Operation) -> bool:
        if resource.bucket == BUCKET:
            return (subresource, operation) in (("", "CREATE"), ("resize", "UPDATE"))
        return resource.bucket == _CLAIMS and subresource == "" and operation in ("CREATE", "UPDATE")

    def admit(self, attributes: Attributes) -> None:
        if attributes.resource.bucket != BUCKET:
            return
        for limit_range in self._ranges(attributes):
            _apply_defaults(pod_of(attributes), limit_range)
            if self._class_resources and attributes.operation == "CREATE":
                _apply_default_classes(pod_of(attributes), limit_range)

    def validate(self, attributes: Attributes) -> None:
        for limit_range in self._ranges(attributes):
            items = (limit_range.get("spec") or {}).get("limits") or ()
            found = (_problems(item, pod_of(attributes), attributes.resource.bucket) for item in items)
            problems = list(dict.fromkeys(chain.from_iterable(found)))
            if problems:
                raise refuse(attributes, problems[0] if len(problems) == 1 else f"[{', '.join(problems)}]")

    def _ranges(self, attributes: Attributes) -> list[JsonObject]:
        # An object that violates a newer LimitRange must still be able to lose its finalizers.
        if attributes.old is not None and attributes.old["metadata"].get("deletionTimestamp"):
            return []
        return list(self._reader.list(_RANGES, f"{attributes.namespace}/"))


def _apply_defaults(pod: JsonObject, limit_range: JsonObject) -> None:
    requests: dict[str, str] = {}
    limits: dict[str, str] = {}
    for item in (limit_range.get("spec") or {}).get("limits") or ():
        if item.get("type") == "Container":
            requests.update(item.get("defaultRequest") or {})
            limits.update(item.get("default") or {})
    notes: list[str] = []
    for field, noun in (("containers", "container"), ("initContainers", "init container")):
        for container in containers_of(pod, field):
            resources = container.setdefault("resources", {})
            for side, defaults in (("requests", requests), ("limits", limits)):
                added = sorted(defaults.keys() - (resources.get(side) or {}).keys())
                if added:
                    resources[side] = {**(resources.get(side) or {}), **{name: defaults[name] for name in added}}
                    notes.append(f"{', '.join(added)} {side[:-1]} for {noun} {container.get('name', '')}")
    if notes:
        annotations = pod["metadata"].setdefault("annotations", {})
        annotations[_ANNOTATION] = f"LimitRanger plugin set: {'; '.join(notes)}"


def _apply_default_classes(pod: JsonObject, limit_range: JsonObject) -> None:
    """Fill in missing classes. Defaults for containers take precedence over defaults for pods."""
    items = {
        item.get("type"): item.get(DEFAULT_CLASSES) for item in (limit_range.get("spec") or {}).get("limits") or ()
    }
    if defaults := items.get("Container"):
        for container, classes in list(classes_of_containers(pod)):
            _fill_classes(container, defaults, classes)
    if defaults := items.get("Pod"):
        _fill_classes(pod["spec"], defaults, default_classes(pod))


def _fill_classes(owner: JsonObject, defaults: Mapping[str, str], said: Mapping[str, str]) -> None:
    missing = {kind: name for kind, name in defaults.items() if kind not in said}
    if missing:
        resources = owner.setdefault("resources", {})
        resources["classes"] = {**(resources.get("classes") or {}), **missing}


def _problems(item: JsonObject, obj: JsonObject, bucket: str) -> Iterator[str]:
    kind = item.get("type", "")
    if bucket == _CLAIMS:
        if kind == "PersistentVolumeClaim":
            requests = _parse(((obj["spec"].get("resources") or {}).get("requests")) or {})
            yield from _bounds(item, kind, requests, {}, claim=True)
    elif kind == "Container":
        for container in containers_of(obj, "containers", "initContainers"):
            resources = container.get("resources") or {}
            requests, limits = (_parse(resources.get(side) or {}) for side in ("requests", "limits"))
            yield from _bounds(item, kind, requests, limits)
    elif kind == "Pod":
        yield from _bounds(item, kind, aggregate(obj["spec"], "requests"), aggregate(obj["spec"], "limits"))


def _parse(amounts: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: quantity(text) for name, text in amounts.items()}


def _bounds(
    item: JsonObject, kind: str, requests: ResourceList, limits: ResourceList, *, claim: bool = False
) -> Iterator[str]:
    for name, bound in _parse(item.get("min") or {}).items():
        text = f"minimum {name} usage per {kind} is {bound}"
        if name not in requests:
            yield f"{text}.  No request is specified"
        elif requests[name] < bound:
            yield f"{text}, but request is {requests[name]}"
        elif name in limits and limits[name] < bound:
            yield f"{text}, but limit is {limits[name]}"
    for name, bound in _parse(item.get("max") or {}).items():
        text, side = f"maximum {name} usage per {kind} is {bound}", requests if claim else limits
        noun = "request" if claim else "limit"
        if name not in side:
            yield f"{text}.  No {noun} is specified"
        elif side[name] > bound:
            yield f"{text}, but {noun} is {side[name]}"
        elif name in requests and requests[name] > bound:
            yield f"{text}, but request is {requests[name]}"
    for name, bound in _parse(item.get("maxLimitRequestRatio") or {}).items():
        yield from _ratio(name, bound, kind, requests, limits)


def _ratio(name: str, bound: Quantity, kind: str, requests: ResourceList, limits: ResourceList) -> Iterator[str]:
    text = f"{name} max limit to request ratio per {kind} is {bound}"
    for noun, amounts in (("request", requests), ("limit", limits)):
        if not amounts.get(name):
            yield f"{text}, but no {noun} is specified or {noun} is 0"
            return
    limit, request = limits[name].milli(), requests[name].milli()
    if limit * 1000 > bound.milli() * request:
        ratio = six_places(min(limit, _MAX_INT64), min(request, _MAX_INT64))  # Kubernetes shows 64 bits of each
        yield f"{text}, but provided ratio is {ratio}"
