"""The allocator of a node.

It is called when a pod is admitted, when its cgroup and containers are created or changed, and when it has ended. The
result for one version of a pod is computed once, so runtime and cgroups always get the same values.

Shares, quota and memory follow from the pod's allocated resources and need no state. A scarce resource that must be
chosen is a `NodeResource`: it persists its assignments across restarts and adds them to the allotment. A resource
provided by an external process is an `AskedResource`: only the pod's own worker waits for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Protocol

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.model.allotment import ContainerAllotment, PodAllotment, Refusal
from tarmac.agent.model.cgrouplimits import MAX_MEMORY, NONE, PERIOD, CgroupLimits, quota
from tarmac.agent.model.pod import AgentPod, is_sidecar
from tarmac.api.kubernetes.core.pods.podresources import pod_amounts, qos_class
from tarmac.api.schema import JsonObject
from tarmac.base.quantity import Quantity
from tarmac.decide.allocatable.weights import shares
from tarmac.decide.amounts import CPU, MEMORY

GUARANTEED_SCORE = -997
BEST_EFFORT_SCORE = 1000
_NODE_CRITICAL = 2_000_001_000


class NodeResource(Protocol):
    """A limited resource of this node: exclusive CPUs, capacity of a class."""

    def admit(self, pod: AgentPod) -> Refusal | None:
        """Assign and persist the resource for a new pod, or return the reason to reject it. Idempotent."""
        ...

    def extend(self, pod: AgentPod, allotment: PodAllotment) -> PodAllotment:
        """Return the allotment extended by the pod's assignment."""
        ...

    def release(self, uid: str) -> None:
        """Free the assignment of an ended pod. Idempotent."""
        ...


class AskedResource(Protocol):
    """A resource that external processes provide: devices. Calls may take time."""

    async def prepare(self, pod: AgentPod) -> Refusal | None:
        """Obtain all that a new pod requests, before any part of it is created; or nothing, and return the reason."""
        ...

    async def before_start(self, pod: AgentPod, container: str) -> bool:
        """Prepare the start of a container; return True if its allotment grew. Raises AllocationRefused."""
        ...

    def extend(self, pod: AgentPod, allotment: PodAllotment) -> PodAllotment:
        """Return the allotment extended by the pod's assignment."""
        ...

    def release(self, uid: str) -> None:
        """Free the assignment of an ended pod. Idempotent."""
        ...

    def awaited(self) -> Set[str]:
        """Return resources of the node whose amount is not known at present."""
        ...

    def holders(self) -> Set[str]:
        """Return the uids of pods with assignments, including those of an earlier agent."""
        ...

    def shown(self, uid: str) -> Mapping[str, JsonObject]:
        """Return additional fields of container statuses, by container name."""
        ...


class Allocator:
    """Computes the allotments of pods."""

    def __init__(
        self,
        settings: AllocationSettings,
        resources: Sequence[NodeResource] = (),
        asked: Sequence[AskedResource] = (),
    ) -> None:
        self._settings = settings
        self._resources = resources
        self._asked = asked
        self._cache: dict[str, tuple[AgentPod, PodAllotment]] = {}  # by uid, with the pod version it was computed for

    def admit(self, pod: AgentPod) -> Refusal | None:
        """Assign resources to a new pod, or return the reason to reject it; then it holds nothing."""
        for resource in self._resources:
            if (why := resource.admit(pod)) is not None:
                # Resources before this one have already assigned something to the pod.
                self.release(pod.uid)
                return why
        return None

    async def prepare(self, pod: AgentPod) -> Refusal | None:
        """Assign resources of external processes, which may take time. A rejected pod holds nothing."""
        # An allotment computed at the admission lacks the devices assigned below.
        self._cache.pop(pod.uid, None)
        for resource in self._asked:
            # A cancelled call leaves the assignments of earlier resources: the next pass repeats the call, and the
            # sweep frees those of a pod that is gone.
            if (why := await resource.prepare(pod)) is not None:
                self.release(pod.uid)
                return why
        return None

    async def before_start(self, pod: AgentPod, container: str) -> None:
        """Prepare the start of a container. Raises AllocationRefused."""
        for resource in self._asked:
            # The cached allotment lacks what it has just been given.
            if await resource.before_start(pod, container):
                self._cache.pop(pod.uid, None)

    def allot(self, pod: AgentPod) -> PodAllotment:
        """Return the allotment of the pod with its allocated resources, and of each of its containers."""
        known = self._cache.get(pod.uid)
        # By identity: each version of a pod is a new object, and comparing specs would cost more than computing.
        if known is not None and known[0] is pod:
            return known[1]
        allotment = self._compute(pod)
        for resource in (*self._resources, *self._asked):
            allotment = resource.extend(pod, allotment)
        self._cache[pod.uid] = pod, allotment
        return allotment

    def reconsider(self) -> None:
        """Drop cached allotments: resources have changed and the next call must recompute them."""
        self._cache.clear()

    def release(self, uid: str) -> None:
        """Free all resources of a pod that has ended or was rejected."""
        self._cache.pop(uid, None)
        for resource in (*self._resources, *self._asked):
            resource.release(uid)

    def awaited(self) -> set[str]:
        """Return resources whose amount is not known at present; `prepare` waits for it."""
        return {name for resource in self._asked for name in resource.awaited()}

    def holders(self) -> set[str]:
        """Return the uids of pods with assignments of external processes."""
        return {uid for resource in self._asked for uid in resource.holders()}

    def shown(self, uid: str) -> dict[str, JsonObject]:
        """Return additional fields of a pod's container statuses, by container name."""
        found: dict[str, JsonObject] = {}
        for resource in self._asked:
            for container, fields in resource.shown(uid).items():
                found[container] = {**found.get(container, {}), **fields}
        return found

    def _compute(self, pod: AgentPod) -> PodAllotment:
        capacity = self._settings.memory_capacity
        return PodAllotment(
            uid=pod.uid,
            quality=qos_class(pod.spec),
            limits=pod_limits(pod.spec, self._settings),
            burstable=burstable_request(pod.spec),
            containers={each["name"]: container_allotment(pod, each, capacity) for each in pod.every_container()},
        )


# The allotment of one container: shares, quota, memory, and OOM score. Pure.


def container_allotment(pod: AgentPod, container: JsonObject, memory_capacity: int) -> ContainerAllotment:
    """Return the allotment of a container; pod-level limits apply to containers without their own."""
    cpu_limit = _amount(container, "limits", "cpu") or _amount(pod.spec, "limits", "cpu")
    memory_limit = _amount(container, "limits", "memory") or _amount(pod.spec, "limits", "memory")
    stated = ((container.get("resources") or {}).get("requests") or {}).get("cpu")
    request = cpu_limit if stated is None else Quantity.parse(stated)
    limit = cpu_limit.milli()
    return ContainerAllotment(
        shares=shares(request.milli()),
        quota=quota(limit, PERIOD) if limit else 0,
        # The API accepts larger amounts than the 64 bits that runtime and kernel have.
        memory=min(memory_limit.value(), MAX_MEMORY),
        oom_score=oom_score(pod, container, memory_capacity),
    )


def oom_score(pod: AgentPod, container: JsonObject, memory_capacity: int) -> int:
    """Return the OOM score adjustment: the larger the memory request, the later the container is killed."""
    quality = qos_class(pod.spec)
    if quality == "Guaranteed" or (pod.spec.get("priority") or 0) >= _NODE_CRITICAL:
        return GUARANTEED_SCORE
    if quality == "BestEffort" or memory_capacity <= 0:
        return BEST_EFFORT_SCORE
    spare = _spare_per_container(pod)
    score = 1000 - 1000 * (_memory(container) + spare) // memory_capacity
    if is_sidecar(container) and container in pod.init_containers:
        least = min((_memory(each) for each in pod.containers), default=0)
        score = min(score, 1000 - 1000 * (least + spare) // memory_capacity)
    return max(1000 + GUARANTEED_SCORE, min(score, BEST_EFFORT_SCORE - 1))


def _spare_per_container(pod: AgentPod) -> int:
    """Return each container's share of a pod-level request beyond the sum of the containers' requests."""
    whole = _memory(pod.spec)
    lasting = [*pod.containers, *(each for each in pod.init_containers if is_sidecar(each))]
    if not whole or not lasting:
        return 0
    return max(0, whole - sum(_memory(each) for each in lasting)) // len(lasting)


def _memory(holder: JsonObject) -> int:
    return _amount(holder, "requests", "memory").value()


def _amount(holder: JsonObject, side: str, name: str) -> Quantity:
    return Quantity.parse(((holder.get("resources") or {}).get(side) or {}).get(name) or "0")


# The limits of a pod's cgroup. Pure.
#
# A pod's cgroup gets the sum of its containers, as kubelets compute it: CPU quota and memory limit only if every
# container has one. For a sandbox with its own kernel this is the only limit in effect, since all its processes are in
# one cgroup.


def pod_limits(spec: JsonObject, settings: AllocationSettings) -> CgroupLimits:
    """Return the limits of a pod's cgroup."""
    requests, limits = pod_amounts(spec, "requests"), pod_amounts(spec, "limits")
    cpu, memory = limits.get(CPU), limits.get(MEMORY)
    return CgroupLimits(
        shares=shares(requests[CPU].milli() if CPU in requests and qos_class(spec) != "BestEffort" else 0),
        # As kubelet: one container without a limit leaves the whole pod without it.
        quota=quota(cpu.milli(), settings.period) if settings.enforce_cpu and cpu and _all_declare(spec, CPU) else NONE,
        period=settings.period,
        memory=min(memory.value(), MAX_MEMORY) if memory and _all_declare(spec, MEMORY) else NONE,
        pids=settings.pids if settings.pids > 0 else NONE,
    )


def burstable_request(spec: JsonObject) -> int:
    """Return the pod's part of the weight of all burstable pods, in millicores."""
    if qos_class(spec) != "Burstable":
        return 0
    requests = pod_amounts(spec, "requests")
    return requests[CPU].milli() if CPU in requests else 0


def _all_declare(spec: JsonObject, resource: str) -> bool:
    if ((spec.get("resources") or {}).get("limits") or {}).get(resource):
        return True
    return all(((each.get("resources") or {}).get("limits") or {}).get(resource) for each in _containers(spec))


def _containers(spec: JsonObject) -> Iterator[JsonObject]:
    yield from spec["containers"]
    yield from spec.get("initContainers") or ()
