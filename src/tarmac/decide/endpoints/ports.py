"""Resolves the ports of a Service at its pods: to the Service's target number, or to a container port of that name.

Pods of one template resolve alike, so each distinct result (`answer`) is computed once and identified by its index: a
Service may have a thousand ports, and thousands of pods behind it.
"""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.schema import JsonObject
from tarmac.decide.endpoints.servicefacts import EndpointPod, ServiceFacts


class ResolvedPort(NamedTuple):
    """A resolved port of endpoints."""

    name: str
    number: int
    protocol: str
    app_protocol: str | None

    def document(self) -> JsonObject:
        """Return the port in the form of an EndpointSlice."""
        fields: JsonObject = {"name": self.name, "port": self.number, "protocol": self.protocol}
        return fields if self.app_protocol is None else {**fields, "appProtocol": self.app_protocol}


class ResolvedPorts:
    """The resolved ports of one Service at its pods."""

    def __init__(self, service: ServiceFacts) -> None:
        self.answers: list[tuple[ResolvedPort, ...]] = []
        self._ports = service.spec.ports or []
        self._named = [(each.target_port, each.protocol) for each in self._ports if isinstance(each.target_port, str)]
        self._known: dict[tuple[int | None, ...], int] = {}  # by a pod's numbers of the port names
        self._places: dict[tuple[ResolvedPort, ...], int] = {}

    def answer(self, pod: EndpointPod) -> int:
        """Return the index of a pod's resolved ports in `answers`; ports that the pod does not have are left out."""
        named = pod.named_ports() if self._named else {}
        numbers = tuple([named.get(each) for each in self._named])
        known = self._known.get(numbers)
        if known is None:
            known = self._known[numbers] = self._place(self._resolved(numbers))
        return known

    def _place(self, ports: tuple[ResolvedPort, ...]) -> int:
        place = self._places.setdefault(ports, len(self.answers))
        if place == len(self.answers):
            self.answers.append(ports)
        return place

    def _resolved(self, numbers: tuple[int | None, ...]) -> tuple[ResolvedPort, ...]:
        of_names, found = iter(numbers), list[ResolvedPort]()
        for each in self._ports:
            number = next(of_names) if isinstance(each.target_port, str) else each.target_port or each.port
            if number is not None:
                found.append(ResolvedPort(each.name, number, each.protocol, each.app_protocol))
        return tuple(found)
