"""QoS classes in scheduling: the demand of a pod and the offer of a node.

The places a pod takes depend on the node: where a type is offered for whole pods, `spec.resources.classes` is the class
of the pod; elsewhere it is the default of its containers. Nodes with equal offers share one `ClassOffer`, and a pod's
need is computed once for each set of types that nodes offer for pods.
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
from tarmac.decide.qosclasses.counting import Place, places
from tarmac.decide.scheduling.levels import CLASSES


class ClassNeed(NamedTuple):
    """The places a pod takes on nodes that offer certain types for pods.

    `misplaced`: classes that a container requests although the type is for whole pods. `torn`: types for which
    containers in one sandbox with its own kernel request different classes, which no node can provide.
    """

    places: tuple[tuple[Place, int], ...]
    misplaced: frozenset[Place]
    torn: tuple[str, ...]


class ClassDemand:
    """The classes that a pod requests."""

    def __init__(self, pod: JsonObject, handler: str) -> None:
        self._pod = pod
        self._needs: dict[frozenset[str], ClassNeed] = {}
        self._missing: WeakKeyDictionary[ClassOffer, tuple[Place, ...]] = WeakKeyDictionary()
        self._own_kernel = handler in OWN_KERNEL_HANDLERS

    def on(self, offer: ClassOffer) -> ClassNeed:
        """Return the pod's need on a node with this offer."""
        need = self._needs.get(offer.pod_types)
        if need is None:
            need = self._needs[offer.pod_types] = _need(self._pod, offer.pod_types, self._own_kernel)
        return need

    def missing(self, offer: ClassOffer) -> tuple[Place, ...]:
        """Return the requested classes that are not offered, or not for containers.

        Cached per offer, since a pod may name thousands of classes.
        """
        found = self._missing.get(offer)
        if found is None:
            need = self.on(offer)
            requested = (place for place, _ in need.places)
            found = tuple(place for place in requested if place not in offer.capacity or place in need.misplaced)
            self._missing[offer] = found
        return found


def class_demand(pod: JsonObject, handler: str) -> ClassDemand | None:
    """Return the classes that a pod requests; None for most pods."""
    return ClassDemand(_narrowed(pod), handler) if asks_for_classes(pod) else None


def class_key(pod: JsonObject) -> tuple[dict[str, str], list[str]] | None:
    """Return the inputs of a class demand besides resources: annotations, and the container names they refer to."""
    stated = pod["metadata"].get("annotations")
    found = class_annotations(stated) if stated else None
    if not found:
        return None
    spec = pod["spec"]
    return found, [each["name"] for each in (*(spec.get("initContainers") or ()), *spec["containers"])]


@dataclass(frozen=True, eq=False)
class ClassOffer:
    """The classes of a node. Nodes that offer the same classes with the same limits share one.

    `capacity`: every offered class with its number of places; None is no limit. `alike` is equal for nodes that differ
    only in the number of places, and is part of the key of their pool.
    """

    capacity: Mapping[Place, int | None]
    pod_types: frozenset[str]
    limited: tuple[Place, ...]
    alike: tuple[object, ...]

    def full(self, used: Mapping[Place, int]) -> int:
        """Return a bit for each limited class without a free place; only the first `CLASSES` are considered."""
        bits = 0
        for number, place in enumerate(self.limited[:CLASSES]):
            if used.get(place, 0) >= (self.capacity[place] or 0):
                bits |= 1 << number
        return bits

    def bits(self, need: ClassNeed) -> int:
        """Return the bits of `full` that rule out a node for a pod."""
        wanted = {place for place, _ in need.places}
        return sum(1 << number for number, place in enumerate(self.limited[:CLASSES]) if place in wanted)

    def classes(self, kind: str) -> list[str]:
        """Return the classes of a type, sorted by name."""
        return sorted(name for known, name in self.capacity if known == kind)


def offer_of(node: JsonObject) -> ClassOffer:
    """Return the offer of a Node. A type reported both for pods and for containers counts for neither."""
    found = offered_classes(node)
    both = found.pod.keys() & found.container.keys()
    pod, container = (_listed(types, both) for types in (found.pod, found.container))
    return _offer(pod, container) if pod or container else NO_CLASSES


@lru_cache(1024)
def _offer(pod: tuple[tuple[Place, int | None], ...], container: tuple[tuple[Place, int | None], ...]) -> ClassOffer:
    capacity = dict(pod + container)
    pod_types = frozenset(kind for (kind, _), _ in pod)
    limited = tuple(sorted(place for place, most in capacity.items() if most is not None))
    return ClassOffer(capacity, pod_types, limited, (frozenset(capacity), pod_types, limited))


NO_CLASSES: Final = ClassOffer({}, frozenset(), (), ())


def _listed(types: Mapping[str, OfferedType], both: set[str]) -> tuple[tuple[Place, int | None], ...]:
    kept = {kind: offered for kind, offered in types.items() if kind not in both}
    return tuple(
        sorted(((kind, name), most) for kind, offered in kept.items() for name, most in offered.classes.items())
    )


def _need(pod: JsonObject, pod_types: frozenset[str], own_kernel: bool) -> ClassNeed:
    requested = {place for _, classes in classes_of_containers(pod, pod_types) for place in classes.items()}
    kinds = Counter(kind for kind, _ in requested)
    torn = tuple(sorted(kind for kind, count in kinds.items() if count > 1)) if own_kernel else ()
    misplaced = frozenset(place for place in requested if place[0] in pod_types)
    return ClassNeed(tuple(sorted(places(pod, pod_types).items())), misplaced, torn)


def _narrowed(pod: JsonObject) -> JsonObject:
    """Return the pod reduced to its classes, since a demand is cached for long."""
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
