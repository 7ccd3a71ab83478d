"""One node: whether it lives, whether it can be reached, and the pods it has."""

from __future__ import annotations

from ipaddress import IPv4Address

from tarmac.sim.nodes.pod import SimulatedPod
from tarmac.sim.nodes.settings import SimLocation

_FIRST_ADDRESS = int(IPv4Address("100.64.0.1"))


class SimulatedNode:
    """A node. `alive` and `reachable` are set by whoever plays fate; the rest by the fleet."""

    __slots__ = (
        "_alive", "_pods", "_reachable", "address", "away", "booted", "fault", "name", "place", "registered", "wrong",
    )  # fmt: skip

    def __init__(self, name: str, place: SimLocation, number: int) -> None:
        self.name = name
        self.place = place
        self.address = str(IPv4Address(_FIRST_ADDRESS + number))
        self.registered = False
        self.wrong = False  # the API says something else about the node than the node itself
        self.away = False  # it missed changes and has not caught up yet
        self.booted = False  # its containers are to start again
        self.fault = ""  # what its annotation asks for
        self._alive = True
        self._reachable = True
        self._pods: dict[str, SimulatedPod] = {}

    @property
    def alive(self) -> bool:
        """Whether it has power."""
        return self._alive

    @alive.setter
    def alive(self, alive: bool) -> None:
        self.away = True
        self.booted = self.booted or not alive
        self._alive = alive

    @property
    def reachable(self) -> bool:
        """Whether it is connected."""
        return self._reachable

    @reachable.setter
    def reachable(self, reachable: bool) -> None:
        self.away = True
        self._reachable = reachable

    @property
    def hears(self) -> bool:
        """Whether changes reach it, and its words the API."""
        return self._alive and self._reachable

    def pods(self) -> list[SimulatedPod]:
        """The pods it has."""
        return list(self._pods.values())

    def add(self, pod: SimulatedPod) -> None:
        """One more."""
        self._pods[pod.uid] = pod

    def remove(self, pod: SimulatedPod) -> None:
        """One less."""
        self._pods.pop(pod.uid, None)
