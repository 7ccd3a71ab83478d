"""Classes as a resource of this node: see `agent.allocation`.

It has no state: places in use are counted from the pods that are here, so the result is the same after a restart. While
the runtime has not answered, the offer is unknown, and no pod is rejected for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from tarmac.agent.model.allotment import PodAllotment, Postponed, Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.qosclasses.classdiscovery import ClassDiscovery
from tarmac.api.kubernetes.core.pods.podclasses import (
    asks_for_classes,
    container_classes,
    default_classes,
    pod_classes,
)
from tarmac.decide.qosclasses.admission import ClassesOfNode, postponement, refusal, taken_by
from tarmac.decide.qosclasses.offers import NOTHING_FOUND, Catalogue


class ClassResource:
    """Implements `NodeResource`.

    `others(uid)` are the pods here except for that one; `own_kernel` tells if a pod's handler current its own kernel.
    """

    def __init__(
        self,
        discovery: ClassDiscovery,
        node: str,
        others: Callable[[str], Sequence[AgentPod]],
        own_kernel: Callable[[AgentPod], bool],
    ) -> None:
        self._others = others
        self._own_kernel = own_kernel
        self._discovery = discovery
        self._node = node

    def admit(self, pod: AgentPod) -> Refusal | None:
        """Reject a pod that cannot get its classes; None if it can."""
        found = self._discovery.catalogue
        if found is None or not asks_for_classes(pod.raw):
            return None
        return refusal(pod.raw, self._here(pod, found))

    def postponed(self, current: AgentPod, requested: AgentPod) -> Postponed | None:
        """Return the reason why a running pod cannot change its classes. All are judged before any is changed."""
        found = self._discovery.catalogue
        if found is None or not (asks_for_classes(requested.raw) or asks_for_classes(current.raw)):
            return None
        why = postponement(requested.raw, current.raw, self._here(requested, found))
        return Postponed(*why) if why else None

    def extend(self, pod: AgentPod, allotment: PodAllotment) -> PodAllotment:
        """Add the requested classes; their availability is checked when they are used."""
        if not asks_for_classes(pod.raw):
            return allotment
        pod_types = (self._discovery.catalogue or NOTHING_FOUND).pod_types
        ephemeral = {each["name"] for each in pod.ephemeral_containers}
        containers = {
            name: replace(
                each,
                classes=default_classes(pod.raw, pod_types)
                if name in ephemeral
                else container_classes(pod.raw, name, pod_types),
            )
            for name, each in allotment.containers.items()
        }
        return replace(allotment, containers=containers, classes=pod_classes(pod.raw, pod_types))

    def release(self, uid: str) -> None:
        """Does nothing: an ended pod is not counted any more."""

    def _here(self, pod: AgentPod, found: Catalogue) -> ClassesOfNode:
        return ClassesOfNode(
            self._node,
            found.offered,
            taken_by([each.raw for each in self._others(pod.uid)], found.pod_types),
            own_kernel=self._own_kernel(pod),
            lenient=self._discovery.lenient,
        )
