"""Classes of shared resources as scheduling sees them: what a pod asks for, what a node offers.

Which places a pod takes depends on the node: where a type is offered for whole pods, `spec.resources.classes` is the
class of the pod; elsewhere it is a default of its containers. Nodes that offer alike share one `Offer`, and a pod's
needs are worked out once for each set of types that nodes offer for pods.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

from tarmac.api.kubernetes.core.nodeclasses import OfferedType, offered_classes
from tarmac.api.kubernetes.core.pods.podclasses import asks_for_classes, class_annotations, classes_of_containers
from tarmac.api.kubernetes.runtimeclasses import OWN_KERNEL_HANDLERS
from tarmac.api.schema import JsonObject
from tarmac.decide.classes.counting import Place, places
from tarmac.decide.scheduling.levels import CLASSES


class ClassNeed(NamedTuple):
    """What a pod takes on nodes that offer certain types for pods.

    `misplaced`: what a container asks for though the type is for whole pods. `torn`: types of which containers that
    share a kernel of their own ask for different classes, which no node can give them.
    """

    places: tuple[tuple[Place, int], ...]
    misplaced: frozenset[Place]
    torn: tuple[str, ...]


class ClassDemand:
    """The classes that a pod asks for."""

    def __init__(self, pod: JsonObject, handler: str) -> None:
        self._pod = pod
        self._needs: dict[frozenset[str], ClassNeed] = {}
        self._missing: WeakKeyDictionary[Offer, tuple[Place, ...]] = WeakKeyDictionary()
        self._own_kernel = handler in OWN_KERNEL_HANDLERS

    def on(self, offer: Offer) -> ClassNeed:
        """What it takes of a node that offers this."""
        need = self._needs.get(offer.pod_types)
        if need is None:
            need = self._needs[offer.pod_types] = _need(self._pod, offer.pod_types, self._own_kernel)
        return need

    def missing(self, offer: Offer) -> tuple[Place, ...]:
        """The classes that are asked for and not offered, or not for containers. Asked once for nodes that are alike,
        since a pod may name thousands."""
        found = self._missing.get(offer)
        if found is None:
            need = self.on(offer)
            asked = (place for place, _ in need.places)
            found = tuple(place for place in asked if place not in offer.capacity or place in need.misplaced)
            self._missing[offer] = found
        return found


def class_demand(pod: JsonObject, handler: str) -> ClassDemand | None:
    """The classes that a pod asks for; None for most pods."""
    return ClassDemand(_narrowed(pod), handler) if asks_for_classes(pod) else None


def class_key(pod: JsonObject) -> tuple[dict[str, str], list[str]] | None:
    """What a demand for classes is made of besides resources: annotations, and the names that these are for."""
    stated = pod["metadata"].get("annotations")
    found = class_annotations(stated) if stated else None
    if not found:
        return None
    spec = pod["spec"]
    return found, [each["name"] for each in (*(spec.get("initContainers") or ()), *spec["containers"])]


@dataclass(frozen=True, eq=False)
class Offer:
    """The classes of a node. Nodes that offer the same classes with the same limits share one.

    `capacity`: every class that is offered, with how many places it has; None is no limit. `alike` is equal for nodes
    that differ in nothing but the number of places, and is part of the key of their pool.
    """

    capacity: Mapping[Place, int | None]
    pod_types: frozenset[str]
    limited: tuple[Place, ...]
    alike: tuple[object, ...]

    def full(self, used: Mapping[Place, int]) -> int:
        """Which of the limited classes have no free place, as bits; the first few are looked at."""
        bits = 0
        for number, place in enumerate(self.limited[:CLASSES]):
            if used.get(place, 0) >= (self.capacity[place] or 0):
                bits |= 1 << number
        return bits

    def bits(self, need: ClassNeed) -> int:
        """The bits of `full` with which a node cannot take a pod."""
        wanted = {place for place, _ in need.places}
        return sum(1 << number for number, place in enumerate(self.limited[:CLASSES]) if place in wanted)

    def classes(self, kind: str) -> list[str]:
        """The classes of a type, by name."""
        return sorted(name for known, name in self.capacity if known == kind)


def offer_of(node: JsonObject) -> Offer:
    """What a Node offers. A type that it claims to offer both for pods and for containers it offers for neither."""
    found = offered_classes(node)
    both = found.pod.keys() & found.container.keys()
    pod, container = (_listed(types, both) for types in (found.pod, found.container))
    return _offer(pod, container) if pod or container else NO_CLASSES


@lru_cache(1024)
def _offer(pod: tuple[tuple[Place, int | None], ...], container: tuple[tuple[Place, int | None], ...]) -> Offer:
    capacity = dict(pod + container)
    pod_types = frozenset(kind for (kind, _), _ in pod)
    limited = tuple(sorted(place for place, most in capacity.items() if most is not None))
    return Offer(capacity, pod_types, limited, (frozenset(capacity), pod_types, limited))


NO_CLASSES: Final = Offer({}, frozenset(), (), ())


def _listed(types: Mapping[str, OfferedType], both: set[str]) -> tuple[tuple[Place, int | None], ...]:
    kept = {kind: offered for kind, offered in types.items() if kind not in both}
    return tuple(
        sorted(((kind, name), most) for kind, offered in kept.items() for name, most in offered.classes.items())
    )


def _need(pod: JsonObject, pod_types: frozenset[str], own_kernel: bool) -> ClassNeed:
    asked = {place for _, classes in classes_of_containers(pod, pod_types) for place in classes.items()}
    kinds = Counter(kind for kind, _ in asked)
    torn = tuple(sorted(kind for kind, count in kinds.items() if count > 1)) if own_kernel else ()
    misplaced = frozenset(place for place in asked if place[0] in pod_types)
    return ClassNeed(tuple(sorted(places(pod, pod_types).items())), misplaced, torn)


def _narrowed(pod: JsonObject) -> JsonObject:
    """No more of the pod than its classes, since a demand is kept for long."""
    spec = pod["spec"]
    return {
        "metadata": {"annotations": class_annotations(pod["metadata"].get("annotations") or {})},
        "spec": {
            "resources": _only_classes(spec),
            "initContainers": [_container(each) for each in spec.get("initContainers") or ()],
            "containers": [_container(each) for each in spec["containers"]],
        },
    }


def _container(container: JsonObject) -> JsonObject:
    own = {name: container[name] for name in ("name", "restartPolicy") if name in container}
    return own | {"resources": _only_classes(container)}


def _only_classes(owner: JsonObject) -> JsonObject:
    return {"classes": (owner.get("resources") or {}).get("classes") or {}}
