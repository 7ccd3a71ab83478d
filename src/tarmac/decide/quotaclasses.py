"""Classes in quotas: which of a type a namespace may use at all, and how many places of each.

A quota binds the types that it lists. A class that it does not list may not be used; one without a capacity may be used
without limit. Types listed for pods are counted by pods, those listed for containers by containers; so every charge is
known by two names, and a quota looks at one of them.
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
from tarmac.decide.classes.counting import Place, Places, places


@dataclass(frozen=True, slots=True)
class AllowedClasses:
    """The types that a quota binds, and the classes of each that may be used; with those that have a capacity."""

    allowed: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    hard: ResourceList = field(default_factory=dict[str, Quantity])

    def forbids(self, wanted: Places) -> list[Place]:
        """The classes that may not be used."""
        return [(kind, name) for kind, name in wanted if name not in self.allowed.get(kind, (name,))]


def allowed_classes(spec: JsonObject) -> AllowedClasses:
    """What a ResourceQuota says about classes."""
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
    """Places as quotas name them."""
    found = {f"class {kind}/{name}": Quantity.of(count) for (kind, name), count in by_containers.items()}
    return found | {f"pod class {kind}/{name}": Quantity.of(count) for (kind, name), count in by_pods.items()}


def pod_class_charges(pod: JsonObject) -> ResourceList:
    """What a pod takes, whichever way a quota counts."""
    if not asks_for_classes(pod):
        return {}
    return class_charges(places(pod), places(pod, {kind for kind, _ in named_classes(pod)}))
