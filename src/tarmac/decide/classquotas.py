"""Classes in quotas: the classes of a type a namespace may use, and the number of places of each.

A quota restricts the types it lists. A class that it does not list may not be used; one without a capacity may be used
without limit. Types listed for pods are counted per pod, those listed for containers per container; so every charge has
two names, and a quota reads one of them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tarmac.api.kubernetes.core.nodeclasses import CONTAINER_LEVEL, POD_LEVEL
from tarmac.api.kubernetes.core.pods.podclasses import asks_for_classes, named_classes
from tarmac.api.schema import JsonObject
from tarmac.api.shared import ResourceList
from tarmac.base.quantity import Quantity
from tarmac.decide.qosclasses.counting import Place, Places, places


@dataclass(frozen=True, slots=True)
class AllowedClasses:
    """The types that a quota restricts, the allowed classes of each, and the limits of classes with a capacity."""

    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    hard: ResourceList = field(default_factory=dict[str, Quantity])

    def forbids(self, wanted: Places) -> list[Place]:
        """Return the classes that may not be used."""
        return [(kind, name) for kind, name in wanted if name not in self.allowed.get(kind, (name,))]


def allowed_classes(spec: JsonObject) -> AllowedClasses:
    """Return the classes that a ResourceQuota allows."""
    allowed: dict[str, tuple[str, ...]] = {}
    hard: ResourceList = {}
    for level, prefix in ((POD_LEVEL, "pod class"), (CONTAINER_LEVEL, "class")):
        for listed in spec.get(level) or ():
            classes: list[Any] = listed.get("classes") or []
            allowed[listed["name"]] = tuple(each["name"] for each in classes)
            for each in classes:
                if each.get("capacity") is not None:
                    hard[f"{prefix} {listed['name']}/{each['name']}"] = Quantity.of(each["capacity"])
    return AllowedClasses(allowed, hard)


def class_charges(by_containers: Places, by_pods: Places) -> ResourceList:
    """Return places by the resource names of quotas."""
    found = {f"class {kind}/{name}": Quantity.of(count) for (kind, name), count in by_containers.items()}
    return found | {f"pod class {kind}/{name}": Quantity.of(count) for (kind, name), count in by_pods.items()}


def pod_class_charges(pod: JsonObject) -> ResourceList:
    """Return the places a pod takes, under both names: counted per container and per pod."""
    if not asks_for_classes(pod):
        return {}
    return class_charges(places(pod), places(pod, {kind for kind, _ in named_classes(pod)}))
