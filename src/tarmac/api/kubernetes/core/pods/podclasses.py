"""The QoS classes (of cache, of block I/O, …) that a pod requests.

A class can be requested in four places. For each type, the first of these that is set applies to a container: its field
`resources.classes`, its annotation, `spec.resources.classes`, the annotation for all containers. Where the node offers
a type for whole pods, `spec.resources.classes` is the class of the pod and not a default for its containers. An
ephemeral container has no field and no annotation of its own.

Only this module implements that order; quotas, the scheduler, the node and the explanations call it. A pod is any
object with `metadata` and `spec` of one. Most pods request no class, and `asks_for_classes` detects that at the cost of
reading their annotations and resources.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Final

from tarmac.api.schema import JsonObject

BLOCKIO: Final = "blockio"
RDT: Final = "rdt"
ANNOTATED_TYPES: Final = (BLOCKIO, RDT)
"""The types that annotations can request."""

POD_QOS: Final = "pod-qos"
"""A type that is passed to runtimes and cannot be requested."""

DEFAULT: Final = "default"
CONTAINER: Final = "container."
_SUFFIX: Final = ".resources.alpha.kubernetes.io/"
_FAMILIES: Final = {kind: f"{kind}{_SUFFIX}" for kind in ANNOTATED_TYPES}
_LONG_NAMES: Final = {f"k8s.io/{kind}": kind for kind in ANNOTATED_TYPES}

Classes = dict[str, str]
"""Class by type."""


def stored_type(name: str) -> str:
    """Return the stored form of a type: `k8s.io/rdt` is `rdt`."""
    return _LONG_NAMES.get(name, name)


def default_annotation(kind: str) -> str:
    """Return the annotation key that sets a class of one of `ANNOTATED_TYPES` for all containers."""
    return f"{_FAMILIES[kind]}{DEFAULT}"


def container_annotation(kind: str, container: str) -> str:
    """Return the annotation key that sets a class of one of `ANNOTATED_TYPES` for one container."""
    return f"{_FAMILIES[kind]}{CONTAINER}{container}"


def class_annotations(annotations: Mapping[str, str]) -> dict[str, str]:
    """Return the annotations of the two families, valid or not."""
    return {key: value for key, value in annotations.items() if annotated_type(key) is not None}


def annotated_type(key: str) -> str | None:
    """Return the type of an annotation key of the two families; None for any other key."""
    kind, found, _ = key.partition(_SUFFIX)
    return kind if found and kind in _FAMILIES else None


def asks_for_classes(pod: JsonObject) -> bool:
    """Return True if the pod requests any class in any way."""
    if any(_SUFFIX in key and annotated_type(key) is not None for key in _annotations(pod)):
        return True
    return names_classes(pod["spec"])


def class_fields(spec: JsonObject) -> list[Classes]:
    """Return the classes that fields request: the pod's own, then each container's."""
    return [_field(spec), *(_field(container) for container in _containers(spec))]


def names_classes(spec: JsonObject) -> bool:
    """Return True if a field requests a class."""
    return any(class_fields(spec))


def pod_classes(pod: JsonObject, pod_types: Collection[str]) -> Classes:
    """Return the classes of the whole pod, where `pod_types` are offered for pods."""
    return {kind: name for kind, name in _field(pod["spec"]).items() if kind in pod_types}


def container_classes(pod: JsonObject, name: str, pod_types: Collection[str] = ()) -> Classes:
    """Return the classes of one container of any kind, by its name."""
    default = default_classes(pod, pod_types)
    found = next((each for each in _containers(pod["spec"]) if each.get("name") == name), None)
    return default if found is None else _own(pod, found, default)


def classes_of_containers(pod: JsonObject, pod_types: Collection[str] = ()) -> Iterator[tuple[JsonObject, Classes]]:
    """Yield every init container and container with its classes, in the order in which they start."""
    default = default_classes(pod, pod_types)
    for container in _containers(pod["spec"]):
        yield container, _own(pod, container, default)


def default_classes(pod: JsonObject, pod_types: Collection[str] = ()) -> Classes:
    """Return the classes of containers without requests of their own, such as ephemeral containers."""
    annotations = _annotations(pod)
    found: Classes = {}
    for kind in ANNOTATED_TYPES:
        if (value := annotations.get(default_annotation(kind))) is not None:
            found[kind] = value
    found.update((kind, value) for kind, value in _field(pod["spec"]).items() if kind not in pod_types)
    return found


def named_classes(pod: JsonObject) -> Iterator[tuple[str, str]]:
    """Yield every (type, class) that the pod names anywhere, even where another place takes precedence."""
    spec, annotations = pod["spec"], _annotations(pod)
    yield from _field(spec).items()
    for container in _containers(spec):
        yield from _field(container).items()
    for key, value in annotations.items():
        if _SUFFIX in key and (kind := annotated_type(key)) is not None:
            yield kind, value


def annotation_giving(pod: JsonObject, container: JsonObject, kind: str) -> str | None:
    """Return the key of the annotation that sets a container's class of a type; None if a field does, or nothing."""
    if kind not in ANNOTATED_TYPES or kind in _field(container):
        return None
    annotations, own = _annotations(pod), container_annotation(kind, container.get("name", ""))
    if own in annotations:
        return own
    default = default_annotation(kind)
    return default if default in annotations and kind not in _field(pod["spec"]) else None


def _own(pod: JsonObject, container: JsonObject, default: Classes) -> Classes:
    """Return the classes of a container; for one without its own, this is the object `default` itself."""
    annotations, name = _annotations(pod), container.get("name", "")
    own: Classes = {}
    for kind in ANNOTATED_TYPES if annotations else ():
        if (value := annotations.get(container_annotation(kind, name))) is not None:
            own[kind] = value
    own.update(_field(container))
    return {**default, **own} if own else default


def _field(owner: JsonObject) -> Classes:
    return (owner.get("resources") or {}).get("classes") or {}


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _annotations(pod: JsonObject) -> Mapping[str, str]:
    return pod["metadata"].get("annotations") or {}
