"""The one allocator of a node.

It is asked when a pod is admitted, when its cgroup and containers are made, when they are changed, and told when a pod
has ended. The answer for one version of a pod is worked out once: runtime and cgroups cannot be told different things.

Shares, quota and memory follow from what the pod was promised and need no memory of their own. What has to be chosen
among scarce things is a `NodeResource`: it keeps across restarts what it has given, and adds it to the allotment. What
somebody else has to be asked for is an `AskedResource`: the pod's own worker waits for it, and nobody else does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from typing import Protocol

from tarmac.agent.allocation.containers import container_allotment
from tarmac.agent.allocation.pods import burstable_request, pod_limits
from tarmac.agent.allocation.settings import AllocationSettings
from tarmac.agent.model.allotment import PodAllotment, Refusal
from tarmac.agent.model.pod import Pod
from tarmac.api.kubernetes.core.pods.podresources import qos_class
from tarmac.api.schema import JsonObject


class NodeResource(Protocol):
    """Something that there is only so much of on this node: processors to oneself, places in a class."""

    def admit(self, pod: Pod) -> Refusal | None:
        """Choose what a new pod gets and keep that, or say why it gets nothing. Asked again, the answer is the same."""
        ...

    def extend(self, pod: Pod, allotment: PodAllotment) -> PodAllotment:
        """The allotment with what this pod was given."""
        ...

    def release(self, uid: str) -> None:
        """The pod has ended: what it had is free. Done again, nothing changes."""
        ...


class AskedResource(Protocol):
    """Something that others on this machine give, who have to be asked: devices. Asking takes time."""

    async def prepare(self, pod: Pod) -> Refusal | None:
        """Have a new pod given all it asks for, before anything of it is made; or nothing, and say why."""
        ...

    async def before_start(self, pod: Pod, container: str) -> bool:
        """A container is about to be made, for the first time or again; whether it has got more. Raises NotGiven."""
        ...

    def extend(self, pod: Pod, allotment: PodAllotment) -> PodAllotment:
        """The allotment with what this pod was given."""
        ...

    def release(self, uid: str) -> None:
        """The pod has ended: what it had is free. Done again, nothing changes."""
        ...

    def awaited(self) -> Set[str]:
        """Resources that the node has, and of which nobody can say just now how many can be had."""
        ...

    def holders(self) -> Set[str]:
        """Uids of the pods that have something, those of an agent before this one included."""
        ...

    def shown(self, uid: str) -> Mapping[str, JsonObject]:
        """Fields for the statuses of a pod's containers, by their names."""
        ...


class Allocator:
    """Says what pods are given."""

    def __init__(
        self,
        settings: AllocationSettings,
        resources: Sequence[NodeResource] = (),
        asked: Sequence[AskedResource] = (),
    ) -> None:
        self._settings = settings
        self._resources = resources
        self._asked = asked
        self._known: dict[str, tuple[Pod, PodAllotment]] = {}  # by uid, for the version of the pod it was made for

    def admit(self, pod: Pod) -> Refusal | None:
        """Take a new pod in, or say why not; then it has nothing."""
        for resource in self._resources:
            if (why := resource.admit(pod)) is not None:
                self.release(pod.uid)
                return why
        return None

    async def prepare(self, pod: Pod) -> Refusal | None:
        """The part of taking a new pod in that may take time. A refused one has nothing."""
        self._known.pop(pod.uid, None)
        for resource in self._asked:
            if (why := await resource.prepare(pod)) is not None:
                self.release(pod.uid)
                return why
        return None

    async def before_start(self, pod: Pod, container: str) -> None:
        """A container is about to be made. Raises NotGiven."""
        for resource in self._asked:
            if await resource.before_start(pod, container):
                self._known.pop(pod.uid, None)

    def allot(self, pod: Pod) -> PodAllotment:
        """What this pod, with the resources it was promised, and each of its containers is given."""
        known = self._known.get(pod.uid)
        if known is not None and known[0] is pod:
            return known[1]
        allotment = self._worked_out(pod)
        for resource in (*self._resources, *self._asked):
            allotment = resource.extend(pod, allotment)
        self._known[pod.uid] = pod, allotment
        return allotment

    def reconsider(self) -> None:
        """What was worked out may be another answer now: it is worked out anew when it is asked for."""
        self._known.clear()

    def release(self, uid: str) -> None:
        """The pod has ended, or does not begin."""
        self._known.pop(uid, None)
        for resource in (*self._resources, *self._asked):
            resource.release(uid)

    def awaited(self) -> set[str]:
        """Resources of which nobody can say just now how many can be had: `prepare` waits for that."""
        return {name for resource in self._asked for name in resource.awaited()}

    def holders(self) -> set[str]:
        """Uids of pods for which somebody else was asked, and holds something back."""
        return {uid for resource in self._asked for uid in resource.holders()}

    def shown(self, uid: str) -> dict[str, JsonObject]:
        """What the statuses of a pod's containers say of what they were given, by their names."""
        found: dict[str, JsonObject] = {}
        for resource in self._asked:
            for container, fields in resource.shown(uid).items():
                found[container] = {**found.get(container, {}), **fields}
        return found

    def _worked_out(self, pod: Pod) -> PodAllotment:
        capacity = self._settings.memory_capacity
        return PodAllotment(
            uid=pod.uid,
            quality=qos_class(pod.spec),
            limits=pod_limits(pod.spec, self._settings),
            burstable=burstable_request(pod.spec),
            containers={each["name"]: container_allotment(pod, each, capacity) for each in pod.every_container()},
        )
