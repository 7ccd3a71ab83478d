"""Whether a simulated node takes a pod: judged as an agent does, by the agent's own functions and in its words.

Processors that were given away are remembered as an agent does in its state file: a node that loses power finds them
again, and forgets those of pods that are gone once it has heard which are left.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from tarmac.agent.model.allotment import Refusal
from tarmac.agent.model.pod import Pod
from tarmac.agent.pods.admission import refusal
from tarmac.api.kubernetes.core.pods.podclasses import Classes, classes_of_containers, pod_classes
from tarmac.api.kubernetes.runtimeclasses import OWN_KERNEL_HANDLERS
from tarmac.api.schema import JsonObject
from tarmac.base.cpuset import CPUSet
from tarmac.decide.classes import admission
from tarmac.decide.classes.admission import ClassesOfNode, taken_by
from tarmac.decide.processors.assigning import NotEnough, assign, refused
from tarmac.sim.nodes.model import NodeModel

_NONE: Final[Mapping[str, CPUSet]] = {}


class NodeGate:
    """The gate of one node, and what it gave to those it let in."""

    def __init__(self, node: JsonObject, model: NodeModel) -> None:
        self._node = node
        self._model = model
        self._pods: dict[str, Pod] = {}  # that were let in and have not ended
        self._cpus: dict[str, Mapping[str, CPUSet]] = {}

    def refusal(self, raw: JsonObject, handler: str) -> Refusal | None:
        """Why a pod may not run here, if it may not. Asked again about one that was let in, the answer is the same."""
        pod = Pod(raw)
        if pod.uid in self._pods:
            return None
        why = refusal(pod, self._node, self._pods.values()) or self._classes(pod, handler) or self._processors(pod)
        if why is None:
            self._pods[pod.uid] = pod
        return why

    def adopt(self, raw: JsonObject) -> None:
        """A pod runs here already: it was let in before the node went away."""
        pod = Pod(raw)
        self._pods[pod.uid] = pod
        self._processors(pod)

    def release(self, uid: str) -> None:
        """A pod has ended, or is gone."""
        self._pods.pop(uid, None)
        self._cpus.pop(uid, None)

    def lose_power(self) -> None:
        """Nothing runs any more. What was given away is on disk."""
        self._pods.clear()

    def keep_only(self, present: Collection[str]) -> None:
        """These pods are all there are."""
        for uid in self._cpus.keys() - present:
            del self._cpus[uid]

    def cpus(self, uid: str) -> Mapping[str, CPUSet]:
        """The processors that containers of a pod have to themselves."""
        return self._cpus.get(uid, _NONE)

    def classes(self, uid: str) -> tuple[Classes, dict[str, Classes]]:
        """The classes that a pod, and each of its containers, is in."""
        pod = self._pods.get(uid)
        if pod is None:
            return {}, {}
        types = self._model.offered.pod
        return pod_classes(pod.raw, types), {
            container["name"]: classes for container, classes in classes_of_containers(pod.raw, types) if classes
        }

    def _classes(self, pod: Pod, handler: str) -> Refusal | None:
        offered = self._model.offered
        taken = taken_by([other.raw for other in self._pods.values()], offered.pod)
        here = ClassesOfNode(self._node["metadata"]["name"], offered, taken, handler in OWN_KERNEL_HANDLERS)
        return admission.refusal(pod.raw, here)

    def _processors(self, pod: Pod) -> Refusal | None:
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
