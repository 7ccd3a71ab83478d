"""The one allocator of a node.

It is asked when a pod is admitted, when its cgroup and containers are made, when they are changed, and told when a pod
has ended. The answer for one version of a pod is worked out once: runtime and cgroups cannot be told different things.

Shares, quota and memory follow from what the pod was promised and need no memory of their own. What has to be chosen
among scarce things is a `NodeResource`: it keeps across restarts what it has given, and adds it to the allotment.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tarmac.agent.allocation.containers import container_allotment
from tarmac.agent.allocation.pods import burstable_request, pod_limits
from tarmac.agent.allocation.settings import AllocationSettings
from tarmac.agent.model.allotment import PodAllotment, Refusal
from tarmac.agent.model.pod import Pod
from tarmac.api.kubernetes.core.pods.podresources import qos_class


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


class Allocator:
    """Says what pods are given."""

    def __init__(self, settings: AllocationSettings, resources: Sequence[NodeResource] = ()) -> None:
        self._settings = settings
        self._resources = resources
        self._known: dict[str, tuple[Pod, PodAllotment]] = {}  # by uid, for the version of the pod it was made for

    def admit(self, pod: Pod) -> Refusal | None:
        """Take a new pod in, or say why not; then it has nothing."""
        for resource in self._resources:
            if (why := resource.admit(pod)) is not None:
                self.release(pod.uid)
                return why
        return None

    def allot(self, pod: Pod) -> PodAllotment:
        """What this pod, with the resources it was promised, and each of its containers is given."""
        known = self._known.get(pod.uid)
        if known is not None and known[0] is pod:
            return known[1]
        allotment = self._worked_out(pod)
        for resource in self._resources:
            allotment = resource.extend(pod, allotment)
        self._known[pod.uid] = pod, allotment
        return allotment

    def release(self, uid: str) -> None:
        """The pod has ended, or does not begin."""
        self._known.pop(uid, None)
        for resource in self._resources:
            resource.release(uid)

    def _worked_out(self, pod: Pod) -> PodAllotment:
        capacity = self._settings.memory_capacity
        return PodAllotment(
            uid=pod.uid,
            quality=qos_class(pod.spec),
            limits=pod_limits(pod.spec, self._settings),
            burstable=burstable_request(pod.spec),
            containers={each["name"]: container_allotment(pod, each, capacity) for each in pod.every_container()},
        )
