"""Admission of pods by simulated nodes, with the agent's own functions and messages.

Exclusive CPUs are remembered as an agent does in its state file: a node finds them again after a power loss, and
releases those of deleted pods once it has listed the remaining ones.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tarmac.agent.cpumanager.manager import cpus_postponed
from tarmac.agent.model.allotment import Postponed, Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.agent.pods.predicates import refusal
from tarmac.api.kubernetes.core.pods.podclasses import (
    Classes,
    asks_for_classes,
    classes_of_containers,
    pod_classes,
)
from tarmac.api.kubernetes.runtimeclasses import OWN_KERNEL_HANDLERS
from tarmac.api.schema import JsonObject
from tarmac.base.cpuset import CPUSet
from tarmac.decide.cpus.assigning import NotEnough, assign, refused
from tarmac.decide.qosclasses import admission
from tarmac.decide.qosclasses.admission import ClassesOfNode, taken_by
from tarmac.sim.nodes.model import NodeModel

_NONE: Final[Mapping[str, CPUSet]] = {}


class NodeGate:
    """The admission of one node, and the CPUs and classes given to admitted pods."""

    def __init__(self, node: JsonObject, model: NodeModel) -> None:
        self._node = node
        self._model = model
        self._pods: dict[str, AgentPod] = {}  # admitted and not ended
        self._cpus: dict[str, Mapping[str, CPUSet]] = {}

    def refusal(self, raw: JsonObject, handler: str) -> Refusal | None:
        """Return the reason to reject a pod, or None. Repeated for an admitted pod, the answer is the same."""
        pod = AgentPod(raw)
        if pod.uid in self._pods:
            return None
        why = refusal(pod, self._node, self._pods.values()) or self._classes(pod, handler) or self._processors(pod)
        if why is None:
            self._pods[pod.uid] = pod
        return why

    def adopt(self, raw: JsonObject) -> None:
        """Take over a running pod that was admitted before the node went away."""
        pod = AgentPod(raw)
        self._pods[pod.uid] = pod
        self._processors(pod)

    def postponed(self, has: AgentPod, asks: AgentPod, handler: str) -> Postponed | None:
        """Return the reason why a running pod cannot get the CPUs or classes it requests now, or None."""
        if asks_for_classes(asks.raw) or asks_for_classes(has.raw):
            why = admission.postponement(asks.raw, has.raw, self._here(asks.uid, handler))
            if why is not None:
                return Postponed(*why)
        return cpus_postponed(has, asks) if self._model.given_away is not None else None

    def release(self, uid: str) -> None:
        """Free the resources of an ended or deleted pod."""
        self._pods.pop(uid, None)
        self._cpus.pop(uid, None)

    def lose_power(self) -> None:
        """Forget running pods. The CPU assignments are on disk and remain."""
        self._pods.clear()

    def keep_only(self, present: Collection[str]) -> None:
        """Drop the CPU assignments of pods that no longer exist."""
        for uid in self._cpus.keys() - present:
            del self._cpus[uid]

    def cpus(self, uid: str) -> Mapping[str, CPUSet]:
        """Return the exclusive CPUs of a pod's containers."""
        return self._cpus.get(uid, _NONE)

    def classes(self, uid: str) -> tuple[Classes, dict[str, Classes]]:
        """Return the classes of a pod and of each of its containers."""
        pod = self._pods.get(uid)
        if pod is None:
            return {}, {}
        types = self._model.offered.pod
        return pod_classes(pod.raw, types), {
            container["name"]: classes for container, classes in classes_of_containers(pod.raw, types) if classes
        }

    def _classes(self, pod: AgentPod, handler: str) -> Refusal | None:
        return admission.refusal(pod.raw, self._here(pod.uid, handler))

    def _here(self, uid: str, handler: str) -> ClassesOfNode:
        offered = self._model.offered
        taken = taken_by([other.raw for other in self._pods.values() if other.uid != uid], offered.pod)
        return ClassesOfNode(self._node["metadata"]["name"], offered, taken, handler in OWN_KERNEL_HANDLERS)

    def _processors(self, pod: AgentPod) -> Refusal | None:
        if self._model.given_away is None or pod.uid in self._cpus:
            return None
        taken = {cpu for given in self._cpus.values() for cpus in given.values() for cpu in cpus}
        try:
            given = assign(self._model.topology, self._model.given_away - CPUSet(taken), pod.spec)
        except NotEnough as error:
            return refused(error)
        if given:
            self._cpus[pod.uid] = given
        return None
