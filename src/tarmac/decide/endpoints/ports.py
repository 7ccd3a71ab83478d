"""Where pods answer the ports of a Service: at a number that the Service says, or at a container's port of that name.

Pods of one template answer alike, so each answer is worked out once and then known by its number: a Service may have a
thousand ports, and thousands of pods behind it.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.schema import JsonObject
from tarmac.decide.endpoints.facts import EndpointPod, ServiceFacts


class Port(NamedTuple):
    """A port where endpoints answer."""

    name: str
    number: int
    protocol: str
    app_protocol: str | None

    def document(self) -> JsonObject:
        """As a slice says it."""
        said: JsonObject = {"name": self.name, "port": self.number, "protocol": self.protocol}
        return said if self.app_protocol is None else {**said, "appProtocol": self.app_protocol}


class ServicePorts:
    """The answers of the pods of one Service."""

    def __init__(self, service: ServiceFacts) -> None:
        self.answers: list[tuple[Port, ...]] = []
        self._ports = service.spec.ports or []
        self._named = [(each.target_port, each.protocol) for each in self._ports if isinstance(each.target_port, str)]
        self._known: dict[tuple[int | None, ...], int] = {}  # by the numbers that the names have at a pod
        self._places: dict[tuple[Port, ...], int] = {}

    def answer(self, pod: EndpointPod) -> int:
        """The place of a pod's answer among `answers`; ports that the pod does not have are left out of it."""
        named = pod.named_ports() if self._named else {}
        numbers = tuple([named.get(each) for each in self._named])
        known = self._known.get(numbers)
        if known is None:
            known = self._known[numbers] = self._place(self._resolved(numbers))
        return known

    def _place(self, ports: tuple[Port, ...]) -> int:
        place = self._places.setdefault(ports, len(self.answers))
        if place == len(self.answers):
            self.answers.append(ports)
        return place

    def _resolved(self, numbers: tuple[int | None, ...]) -> tuple[Port, ...]:
        of_names, found = iter(numbers), list[Port]()
        for each in self._ports:
            number = next(of_names) if isinstance(each.target_port, str) else each.target_port or each.port
            if number is not None:
                found.append(Port(each.name, number, each.protocol, each.app_protocol))
        return tuple(found)
