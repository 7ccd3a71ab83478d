"""One simulated node: its power, its connection, its agent, and its pods."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address

from tarmac.agent.model.allotment import Postponed, Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.sim.nodes.gate import NodeGate
from tarmac.sim.nodes.locationobjects import labels_of
from tarmac.sim.nodes.model import NodeModel
from tarmac.sim.nodes.pod import SimulatedPod
from tarmac.sim.nodes.settings import SimLocation

_FIRST_ADDRESS = int(IPv4Address("100.64.0.1"))


class SimulatedNode:
    """A node. Fault injection sets `alive`, `reachable` and `attended`; the fleet sets the rest."""

    __slots__ = (
        "_alive", "_attended", "_gate", "_pods", "_reachable", "address", "away", "behind", "booted", "external",
        "fault", "gateway", "model", "name", "number", "place", "registered", "replugged", "wrong",
    )  # fmt: skip

    def __init__(self, name: str, place: SimLocation, number: int, model: NodeModel, *, external: bool = True) -> None:
        self.name = name
        self.place = place
        self.model = model
        self._gate = _gate(name, place, model)  # None: every bound pod is accepted
        self.address = str(IPv4Address(_FIRST_ADDRESS + number))
        self.number = number
        self.external = external  # takes part in external services
        self.registered = False
        self.gateway = False  # labelled as gateway: it has an outside interface
        self.replugged = False  # its reported interfaces are out of date
        self.wrong = False  # the Node object differs from the node's true state
        self.away = False  # it missed changes and has not begun to catch up
        self.behind = False  # it may have pods that were deleted
        self.booted = False  # its containers are to be started again
        self.fault = ""  # value of its fault annotation
        self._alive = True
        self._reachable = True
        self._attended = True
        self._pods: dict[str, SimulatedPod] = {}

    @property
    def alive(self) -> bool:
        """True if it has power."""
        return self._alive

    @alive.setter
    def alive(self, alive: bool) -> None:
        self.away = self.behind = True
        self.booted = self.booted or not alive
        if self._gate is not None and not alive:
            self._gate.lose_power()
        self._alive = alive

    @property
    def reachable(self) -> bool:
        """True if it is connected."""
        return self._reachable

    @reachable.setter
    def reachable(self, reachable: bool) -> None:
        self.away = self.behind = True
        self._reachable = reachable

    @property
    def attended(self) -> bool:
        """True if its agent runs."""
        return self._attended

    @attended.setter
    def attended(self, attended: bool) -> None:
        self.away = self.behind = True
        self._attended = attended

    @property
    def hears(self) -> bool:
        """True if it receives changes and can report to the API."""
        return self._alive and self._reachable and self._attended

    def pods(self) -> list[SimulatedPod]:
        """Return its pods."""
        return list(self._pods.values())

    def add(self, pod: SimulatedPod) -> None:
        """Add a pod."""
        self._pods[pod.uid] = pod

    def remove(self, pod: SimulatedPod) -> None:
        """Remove a pod."""
        self._pods.pop(pod.uid, None)
        if self._alive:  # without power, the CPU assignments remain on disk
            self.release(pod)

    @property
    def judges(self) -> bool:
        """True if it checks pods at admission."""
        return self._gate is not None

    def refusal(self, pod: SimulatedPod, handler: str) -> Refusal | None:
        """Return the reason to reject a pod, or None. On admission, the pod's CPUs and classes are recorded in it."""
        if self._gate is None or pod.whole is None:
            return None
        refused = self._gate.refusal(pod.whole, handler)
        if refused is None:
            self._note_given(self._gate, pod)
        return refused

    def adopt(self, pod: SimulatedPod) -> None:
        """Take over a running pod that it had before it went away."""
        if self._gate is not None and pod.whole is not None:
            self._gate.adopt(pod.whole)
            self._note_given(self._gate, pod)

    def release(self, pod: SimulatedPod) -> None:
        """Free the resources of an ended pod."""
        if self._gate is not None:
            self._gate.release(pod.uid)

    def postponed(self, has: AgentPod, asks: AgentPod, handler: str) -> Postponed | None:
        """Return the reason why a pod cannot get other CPUs or classes, or None."""
        return self._gate.postponed(has, asks, handler) if self._gate is not None else None

    def resized(self, pod: SimulatedPod) -> None:
        """Record the changed resources of a pod."""
        if self._gate is not None and pod.whole is not None:
            self._gate.adopt(pod.whole)
            self._note_given(self._gate, pod)

    def keep_only(self, present: Collection[str]) -> None:
        """Drop the resources of pods that no longer exist."""
        if self._gate is not None:
            self._gate.keep_only(present)

    @staticmethod
    def _note_given(gate: NodeGate, pod: SimulatedPod) -> None:
        pod.cpus = {name: str(cpus) for name, cpus in gate.cpus(pod.uid).items()}
        pod.classes = gate.classes(pod.uid)


def _gate(name: str, place: SimLocation, model: NodeModel) -> NodeGate | None:
    node = {"metadata": {"name": name, "labels": labels_of(name, place)}, "status": model.status()}
    return NodeGate(node, model) if model.judges else None
