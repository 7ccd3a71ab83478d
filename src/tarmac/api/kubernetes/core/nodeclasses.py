"""Tarmac's own fields in a Node's status: the offered QoS classes, and the reservations with their purposes.

An API server that does not know these fields drops them; there the agent writes the same data to an annotation, and
readers use the field, else the annotation. An invalid annotation offers nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from tarmac.api.schema import JsonObject

RESOURCES_ANNOTATION: Final = "node.tarmac/resources"
"""On a Node of a server that drops unknown fields: JSON of `FIELDS`."""

CLASSES_ANNOTATION: Final = "node.tarmac/classes"
"""On a Pod of a server that drops unknown fields: the effective classes.

`{"pod":{},"containers":{NAME:{TYPE:CLASS}}}`
"""

POD_LEVEL: Final = "podClassResources"
CONTAINER_LEVEL: Final = "containerClassResources"
RESERVATIONS: Final = "reservations"
FIELDS: Final = (RESERVATIONS, POD_LEVEL, CONTAINER_LEVEL)


@dataclass(frozen=True, slots=True)
class OfferedType:
    """One type. A class without a capacity (None) is unlimited."""

    immutable: bool
    classes: Mapping[str, int | None]


@dataclass(frozen=True, slots=True)
class OfferedClasses:
    """All classes that a node offers, by level and type."""

    pod: Mapping[str, OfferedType] = field(default_factory=dict[str, OfferedType])
    container: Mapping[str, OfferedType] = field(default_factory=dict[str, OfferedType])

    def find(self, kind: str) -> OfferedType | None:
        """Return the type, of either level; no node offers one at both."""
        return self.container.get(kind) or self.pod.get(kind)


class _Class(msgspec.Struct):
    name: str
    capacity: int | None = None


class _Type(msgspec.Struct):
    name: str
    immutable: bool = False
    classes: list[_Class] = []


class _Offer(msgspec.Struct, rename="camel"):
    pod_class_resources: list[_Type] = []
    container_class_resources: list[_Type] = []


def node_resources(node: JsonObject) -> JsonObject:
    """Return those of `FIELDS` that the node publishes, from its status, else from its annotation."""
    status: JsonObject = node.get("status") or {}
    found = {name: status[name] for name in FIELDS if status.get(name)}
    if found:
        return found
    text = (node["metadata"].get("annotations") or {}).get(RESOURCES_ANNOTATION)
    return _from_annotation(text) if text else {}


def offered_classes(node: JsonObject) -> OfferedClasses:
    """Return the classes that pods and containers can request on the node."""
    published = node_resources(node)
    if not (published.get(POD_LEVEL) or published.get(CONTAINER_LEVEL)):
        return NOTHING
    try:
        offer = msgspec.convert(published, _Offer)
    except msgspec.ValidationError:
        return NOTHING
    return OfferedClasses(_by_name(offer.pod_class_resources), _by_name(offer.container_class_resources))


NOTHING: Final = OfferedClasses()


def _by_name(types: Sequence[_Type]) -> dict[str, OfferedType]:
    return {
        each.name: OfferedType(each.immutable, {known.name: known.capacity for known in each.classes}) for each in types
    }


def _from_annotation(text: str) -> JsonObject:
    try:
        found = msgspec.json.decode(text, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError):
        return {}
    return {name: found[name] for name in FIELDS if found.get(name)}
