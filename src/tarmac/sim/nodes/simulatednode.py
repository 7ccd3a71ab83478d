"""One node: whether it lives, whether it can be reached, and the pods it has."""

from __future__ import annotations

from collections.abc import Collection
from ipaddress import IPv4Address

from tarmac.agent.model.allotment import Refusal
from tarmac.sim.nodes.gate import NodeGate
from tarmac.sim.nodes.model import NodeModel
from tarmac.sim.nodes.objects import labels_of
from tarmac.sim.nodes.pod import SimulatedPod
from tarmac.sim.nodes.settings import SimLocation

_FIRST_ADDRESS = int(IPv4Address("100.64.0.1"))


class SimulatedNode:
    """A node. `alive`, `reachable` and `attended` are set by whoever plays fate; the rest by the fleet."""

    __slots__ = (
        "_alive", "_attended", "_gate", "_pods", "_reachable", "address", "away", "behind", "booted", "external",
        "fault", "gateway", "model", "name", "number", "place", "registered", "replugged", "wrong",
    )  # fmt: skip

    def __init__(self, name: str, place: SimLocation, number: int, model: NodeModel, *, external: bool = True) -> None:
        self.name = name
        self.place = place
        self.model = model
        self._gate = _gate(name, place, model)  # None: whatever is bound is taken
        self.address = str(IPv4Address(_FIRST_ADDRESS + number))
        self.number = number
        self.external = external  # whether it takes part in external services
        self.registered = False
        self.gateway = False  # managers want it to carry addresses: it has an interface outside
        self.replugged = False  # what it says of its interfaces is out of date
        self.wrong = False  # the API says something else about the node than the node itself
        self.away = False  # it missed changes and has yet to begin to catch up
        self.behind = False  # it may have pods that are gone
        self.booted = False  # its containers are to start again
        self.fault = ""  # what its annotation asks for
        self._alive = True
        self._reachable = True
        self._attended = True
        self._pods: dict[str, SimulatedPod] = {}

    @property
    def alive(self) -> bool:
        """Whether it has power."""
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
        """Whether it is connected."""
        return self._reachable

    @reachable.setter
    def reachable(self, reachable: bool) -> None:
        self.away = self.behind = True
        self._reachable = reachable

    @property
    def attended(self) -> bool:
        """Whether its agent runs."""
        return self._attended

    @attended.setter
    def attended(self, attended: bool) -> None:
        self.away = self.behind = True
        self._attended = attended

    @property
    def hears(self) -> bool:
        """Whether changes reach it, and its words the API."""
        return self._alive and self._reachable and self._attended

    def pods(self) -> list[SimulatedPod]:
        """The pods it has."""
        return list(self._pods.values())

    def add(self, pod: SimulatedPod) -> None:
        """One more."""
        self._pods[pod.uid] = pod

    def remove(self, pod: SimulatedPod) -> None:
        """One less."""
        self._pods.pop(pod.uid, None)
        if self._alive:  # a node without power finds on its disk what it gave away
            self.release(pod)

    @property
    def judges(self) -> bool:
        """Whether it looks at pods before it takes them."""
        return self._gate is not None

    def refusal(self, pod: SimulatedPod, handler: str) -> Refusal | None:
        """Why it does not take a pod, if it does not; else what the pod was given is noted in it."""
        if self._gate is None or pod.whole is None:
            return None
        refused = self._gate.refusal(pod.whole, handler)
        if refused is None:
            self._note_given(self._gate, pod)
        return refused

    def adopt(self, pod: SimulatedPod) -> None:
        """A pod runs that it had before it went away."""
        if self._gate is not None and pod.whole is not None:
            self._gate.adopt(pod.whole)
            self._note_given(self._gate, pod)

    def release(self, pod: SimulatedPod) -> None:
        """A pod has ended: what it had is free."""
        if self._gate is not None:
            self._gate.release(pod.uid)

    def keep_only(self, present: Collection[str]) -> None:
        """These pods are all there are."""
        if self._gate is not None:
            self._gate.keep_only(present)

    @staticmethod
    def _note_given(gate: NodeGate, pod: SimulatedPod) -> None:
        pod.cpus = {name: str(cpus) for name, cpus in gate.cpus(pod.uid).items()}
        pod.classes = gate.classes(pod.uid)


def _gate(name: str, place: SimLocation, model: NodeModel) -> NodeGate | None:
    node = {"metadata": {"name": name, "labels": labels_of(name, place)}, "status": model.status()}
    return NodeGate(node, model) if model.judges else None
