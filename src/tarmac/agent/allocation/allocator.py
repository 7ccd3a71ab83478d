"""The allocator of a node.

It is called when a pod is admitted, when its cgroup and containers are created or changed, and when it has ended. The
result for one version of a pod is computed once, so runtime and cgroups always get the same values.

Shares, quota and memory follow from the pod's allocated resources and need no state. A scarce resource that must be
chosen is a `NodeResource`: it persists its assignments across restarts and adds them to the allotment. A resource
provided by an external process is an `AskedResource`: only the pod's own worker waits for it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from tarmac.agent.allocation.containers import container_allotment
from tarmac.agent.allocation.pods import burstable_request, pod_limits
from tarmac.agent.allocation.settings import AllocationSettings
from tarmac.agent.model.allotment import PodAllotment, Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.api.kubernetes.core.pods.podresources import qos_class
from tarmac.api.schema import JsonObject


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
                self.release(pod.uid)
                return why
        return None

    async def prepare(self, pod: AgentPod) -> Refusal | None:
        """Assign resources of external processes, which may take time. A rejected pod holds nothing."""
        self._cache.pop(pod.uid, None)
        for resource in self._asked:
            if (why := await resource.prepare(pod)) is not None:
                self.release(pod.uid)
                return why
        return None

    async def before_start(self, pod: AgentPod, container: str) -> None:
        """Prepare the start of a container. Raises AllocationRefused."""
        for resource in self._asked:
            if await resource.before_start(pod, container):
                self._cache.pop(pod.uid, None)

    def allot(self, pod: AgentPod) -> PodAllotment:
        """Return the allotment of the pod with its allocated resources, and of each of its containers."""
        known = self._cache.get(pod.uid)
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
