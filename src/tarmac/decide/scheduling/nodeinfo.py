"""The scheduler's view of a node: its properties (`Node`, from the object) and its pods (`NodeInfo`, kept current).

`NodeInfo.free` is the free amount of each resource. It is updated pod by pod, so the cost per pod does not depend on
the size of the cluster.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from tarmac.api.compute.names import GPUS_SANDBOXABLE
from tarmac.api.kubernetes.core.nodedevices import NO_DEVICES, NodeDevices, node_devices
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.decide.amounts import CPU, MEMORY, PODS, Amounts, amounts_of, whole
from tarmac.decide.exclusivecpus import CPU_EXCLUSIVE
from tarmac.decide.qosclasses.counting import Place
from tarmac.decide.scheduling.classdemand import NO_CLASSES, ClassDemand, ClassOffer, offer_of
from tarmac.decide.scheduling.demand import Pod, Port
from tarmac.decide.scheduling.levels import FULL, UNLIMITED, level_of


@dataclass(frozen=True, slots=True)
class Taint:
    """A taint of a node."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


@dataclass(frozen=True, slots=True)
class Node:
    """The properties of a node. `handlers` is None if the node does not report its runtime handlers.

    `devices`: the resources that are devices, and the handlers that pass them on. `unhealthy`: counts of devices that
    are not allocatable. `gpus_closed`: why its sandboxes cannot use its GPUs, in its own words.
    """

    name: str
    labels: Mapping[str, str]
    allocatable: Mapping[str, int]
    taints: tuple[Taint, ...] = ()
    unschedulable: bool = False
    handlers: frozenset[str] | None = None
    images: Mapping[str, int] | None = None
    devices: NodeDevices = NO_DEVICES
    unhealthy: Mapping[str, int] | None = None
    offer: ClassOffer = NO_CLASSES
    gpus_closed: str = ""

    @property
    def location(self) -> str:
        """The node's Location; empty for none."""
        return self.labels.get(LABEL_LOCATION, "")


def node_of(obj: JsonObject) -> Node:
    """Parse a Node object."""
    metadata: JsonObject = obj["metadata"]
    spec: JsonObject = obj.get("spec") or {}
    status: JsonObject = obj.get("status") or {}
    taints = [Taint(item["key"], item.get("value") or "", item["effect"]) for item in spec.get("taints") or ()]
    cordoned = bool(spec.get("unschedulable"))
    if cordoned:  # the taint is redundant: one refusal (uncordon) is enough
        taints = [taint for taint in taints if taint != CORDON]
    handlers = status.get("runtimeHandlers")
    return Node(
        metadata["name"],
        metadata.get("labels") or {},
        amounts_of(status.get("allocatable")) | _exclusive(status.get("capacity") or {}),
        tuple(sorted(taints, key=str)),
        cordoned,
        frozenset(item.get("name") or "" for item in handlers) if handlers else None,
        _images(status.get("images") or ()),
        devices := node_devices(obj),
        _unhealthy(status, devices),
        offer_of(obj),
        _gpus_closed(status),
    )


def _gpus_closed(status: JsonObject) -> str:
    conditions = (each for each in status.get("conditions") or () if each.get("type") == GPUS_SANDBOXABLE)
    return next((str(each.get("message") or "") for each in conditions if each.get("status") == "False"), "")


def _exclusive(capacity: Mapping[str, str]) -> Amounts:
    """Return the exclusive CPUs of a node that supports them, even if there are none left."""
    if CPU_EXCLUSIVE not in capacity:
        return {}
    return {CPU_EXCLUSIVE: whole(CPU_EXCLUSIVE, Quantity.parse(capacity[CPU_EXCLUSIVE]))}


def _images(listed: Any) -> Mapping[str, int] | None:
    return {name: image.get("sizeBytes", 0) for image in listed for name in image.get("names") or ()} or None


def _unhealthy(status: JsonObject, devices: NodeDevices) -> Mapping[str, int] | None:
    if not devices.resources:
        return None
    capacity, allocatable = amounts_of(status.get("capacity")), amounts_of(status.get("allocatable"))
    missing = {name: capacity.get(name, 0) - allocatable.get(name, 0) for name in devices.resources}
    return {name: number for name, number in missing.items() if number > 0} or None


class NodeInfo:
    """A node and its pods. `pool` and `slot` are its position; only `NodePool` writes them and `level`."""

    __slots__ = ("free", "groups", "level", "node", "places", "pods", "pool", "ports", "slot")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.free: Amounts = dict(node.allocatable)
        self.free.setdefault(CPU, 0)
        self.free.setdefault(MEMORY, 0)
        self.free.setdefault(PODS, 0)
        self.free.setdefault(CPU_EXCLUSIVE, UNLIMITED)
        self.pods: dict[str, Pod] = {}
        self.ports: dict[Port, int] = {}
        self.groups: dict[str, int] = {}
        self.places: dict[Place, int] = {}  # taken places by class
        self.pool: NodePool | None = None
        self.level = FULL
        self.slot = 0

    def charge(self, pod: Pod) -> None:
        """Add a pod to the node."""
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def discharge(self, pod: Pod) -> None:
        """Remove a pod from the node."""
        del self.pods[pod.uid]
        self._count(pod, -1)

    def replace(self, node: Node) -> None:
        """Apply new properties of the node; its pods stay."""
        for resource in {*self.node.allocatable, *node.allocatable}:
            # A node without a count of exclusive CPUs shares all CPUs, so requests for them are unlimited.
            otherwise = UNLIMITED if resource == CPU_EXCLUSIVE else 0
            change = node.allocatable.get(resource, otherwise) - self.node.allocatable.get(resource, otherwise)
            self.free[resource] = self.free.get(resource, 0) + change
        recount = node.offer is not self.node.offer
        self.node = node
        if recount:  # a pod's places depend on the types offered for whole pods
            self.places.clear()
            for pod in self.pods.values():
                self._count_places(pod, 1)

    def current_level(self) -> int:
        """Return the node's level, a coarse measure of its free resources. FULL takes no pod at all."""
        free = self.free
        if free[PODS] <= 0:
            return FULL
        offer = self.node.offer
        return level_of(free[CPU], free[MEMORY], free[CPU_EXCLUSIVE], offer.full(self.places) if offer.limited else 0)

    def _count(self, pod: Pod, sign: int) -> None:
        free = self.free
        for resource, amount in pod.demand.requests:
            free[resource] = free.get(resource, 0) - sign * amount
        if pod.group:
            _step(self.groups, pod.group, sign)
        for port in pod.demand.ports:
            _step(self.ports, port, sign)
        if pod.demand.classes is not None:
            self._count_places(pod, sign)

    def missing_places(self, wanted: ClassDemand) -> list[tuple[Place, int, int]]:
        """Return the classes without enough free places for a pod: requested and missing numbers."""
        capacity, taken = self.node.offer.capacity, self.places
        requested = ((place, count, capacity.get(place)) for place, count in wanted.on(self.node.offer).places)
        found = (
            (place, count, taken.get(place, 0) + count - most) for place, count, most in requested if most is not None
        )
        return [(place, count, lack) for place, count, lack in found if lack > 0]

    def _count_places(self, pod: Pod, sign: int) -> None:
        if pod.demand.classes is not None:
            for place, count in pod.demand.classes.on(self.node.offer).places:
                _step(self.places, place, sign * count)


def _step(counts: dict[Any, int], key: object, change: int) -> None:
    count = counts.get(key, 0) + change
    if count:
        counts[key] = count
    else:
        del counts[key]


class NodePool:
    """A pool of equivalent nodes, which differ only in their pods, in buckets by free capacity.

    All nodes of a pool have the same Location, taints, runtimes and values of the labels that pods select by. A filter
    on those runs once per pool, not once per node. The emptiest nodes are tried first and nodes that are certainly too
    full are skipped, so the cost of finding a node is the same in a pool of a hundred nodes and of thousands.

    `order` lists the levels that have nodes, emptiest first.
    """

    __slots__ = ("buckets", "key", "order", "size")

    def __init__(self, key: tuple[object, ...]) -> None:
        self.key = key
        self.buckets: dict[int, list[NodeInfo]] = {}
        self.order: list[int] = []
        self.size = 0

    def __iter__(self) -> Iterator[NodeInfo]:
        for level in self.order:
            yield from self.buckets[level]

    @property
    def example(self) -> NodeInfo:
        """Any node of the pool, for properties that all of them share."""
        return self.buckets[self.order[0]][0]

    def add(self, info: NodeInfo) -> None:
        """Add a node."""
        self.size += 1
        info.pool = self
        self._put(info)

    def remove(self, info: NodeInfo) -> None:
        """Remove a node."""
        self.size -= 1
        info.pool = None
        self._take(info)

    def refresh(self, info: NodeInfo) -> None:
        """Move a node to the bucket of its current level, after its pods have changed."""
        if info.current_level() != info.level:
            self._take(info)
            self._put(info)

    def _put(self, info: NodeInfo) -> None:
        info.level = info.current_level()
        bucket = self.buckets.get(info.level)
        if bucket is None:
            bucket = self.buckets[info.level] = []
            self.order = sorted(self.buckets, reverse=True)
        info.slot = len(bucket)
        bucket.append(info)

    def _take(self, info: NodeInfo) -> None:
        """Remove a node from its bucket in O(1): the bucket's last node moves into the gap."""
        bucket = self.buckets[info.level]
        last = bucket.pop()
        if last is not info:
            bucket[info.slot] = last
            last.slot = info.slot
        if not bucket:
            del self.buckets[info.level]
            self.order = sorted(self.buckets, reverse=True)
