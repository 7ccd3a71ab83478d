"""A node as scheduling sees it: what it is (`Node`, read from the object) and what it holds (`NodeInfo`, kept current).

`NodeInfo.free` is what is left of each resource. It is charged and discharged pod by pod, so keeping a cluster of any
size current costs the same per pod.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from tarmac.api.kubernetes.core.nodedevices import NO_DEVICES, NodeDevices, node_devices
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.decide.scheduling.amounts import CPU, MEMORY, PODS, Amounts, amounts_of
from tarmac.decide.scheduling.demand import Pod, Port

if TYPE_CHECKING:
    from tarmac.decide.scheduling.pool import Pool

FULL: Final = -1
_BITS: Final = 6


@dataclass(frozen=True, slots=True)
class Taint:
    """What keeps pods off a node unless they tolerate it."""

    key: str
    value: str
    effect: str

    def __str__(self) -> str:
        return f"{self.key}={self.value}:{self.effect}" if self.value else f"{self.key}:{self.effect}"


CORDON: Final = Taint("node.kubernetes.io/unschedulable", "", "NoSchedule")


@dataclass(frozen=True, slots=True)
class Node:
    """What a node is. `handlers` is None when the node does not say which runtimes it offers.

    `devices`: which of its resources are devices, and which handlers pass them on. `unhealthy`: devices that nobody is
    given.
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

    @property
    def location(self) -> str:
        """The Location it belongs to."""
        return self.labels.get(LABEL_LOCATION, "")


def node_of(obj: JsonObject) -> Node:
    """The node behind an object."""
    metadata: JsonObject = obj["metadata"]
    spec: JsonObject = obj.get("spec") or {}
    status: JsonObject = obj.get("status") or {}
    taints = [Taint(item["key"], item.get("value") or "", item["effect"]) for item in spec.get("taints") or ()]
    cordoned = bool(spec.get("unschedulable"))
    if cordoned:  # the taint says it again, and one answer is enough: uncordon
        taints = [taint for taint in taints if taint != CORDON]
    handlers = status.get("runtimeHandlers")
    return Node(
        metadata["name"],
        metadata.get("labels") or {},
        amounts_of(status.get("allocatable")),
        tuple(sorted(taints, key=str)),
        cordoned,
        frozenset(item.get("name") or "" for item in handlers) if handlers else None,
        _images(status.get("images") or ()),
        devices := node_devices(obj),
        _unhealthy(status, devices),
    )


def _images(listed: Any) -> Mapping[str, int] | None:
    return {name: image.get("sizeBytes", 0) for image in listed for name in image.get("names") or ()} or None


def _unhealthy(status: JsonObject, devices: NodeDevices) -> Mapping[str, int] | None:
    if not devices.resources:
        return None
    capacity, allocatable = amounts_of(status.get("capacity")), amounts_of(status.get("allocatable"))
    missing = {name: capacity.get(name, 0) - allocatable.get(name, 0) for name in devices.resources}
    return {name: number for name, number in missing.items() if number > 0} or None


class NodeInfo:
    """A node and what is on it. `pool` and `slot` say where it is kept; only `Pool` writes them and `level`."""

    __slots__ = ("free", "groups", "level", "node", "pods", "pool", "ports", "slot")

    def __init__(self, node: Node) -> None:
        self.node = node
        self.free: Amounts = dict(node.allocatable)
        self.free.setdefault(CPU, 0)
        self.free.setdefault(MEMORY, 0)
        self.free.setdefault(PODS, 0)
        self.pods: dict[str, Pod] = {}
        self.ports: dict[Port, int] = {}
        self.groups: dict[str, int] = {}
        self.pool: Pool | None = None
        self.level = FULL
        self.slot = 0

    def charge(self, pod: Pod) -> None:
        """The pod is on the node now."""
        self.pods[pod.uid] = pod
        self._count(pod, 1)

    def discharge(self, pod: Pod) -> None:
        """The pod is no longer on the node."""
        del self.pods[pod.uid]
        self._count(pod, -1)

    def replace(self, node: Node) -> None:
        """The node has changed; what is on it has not."""
        for resource in {*self.node.allocatable, *node.allocatable}:
            change = node.allocatable.get(resource, 0) - self.node.allocatable.get(resource, 0)
            self.free[resource] = self.free.get(resource, 0) + change
        self.node = node

    def current_level(self) -> int:
        """How empty it is, roughly: the lengths of its free processors and memory in bits. FULL takes no pod at all."""
        free = self.free
        if free[PODS] <= 0:
            return FULL
        return level_of(free[CPU], free[MEMORY])

    def _count(self, pod: Pod, sign: int) -> None:
        free = self.free
        for resource, amount in pod.demand.requests:
            free[resource] = free.get(resource, 0) - sign * amount
        if pod.group:
            _step(self.groups, pod.group, sign)
        for port in pod.demand.ports:
            _step(self.ports, port, sign)


def level_of(cpu: int, memory: int) -> int:
    """A node of a lower level in either part cannot take a pod of this size."""
    return (cpu.bit_length() if cpu > 0 else 0) << _BITS | (min(63, memory.bit_length()) if memory > 0 else 0)


def memory_level(level: int) -> int:
    """The part of a level that is about memory."""
    return level & 63


def _step(counts: dict[Any, int], key: object, sign: int) -> None:
    count = counts.get(key, 0) + sign
    if count:
        counts[key] = count
    else:
        del counts[key]
