"""Allocation of transit addresses, under which connections travel between nodes.

A transit address identifies (ExternalService, node, Network, SourceIP). It is kept for as long as the node's Forwarder
has it, so edits and restarts move no connection.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import NamedTuple

from tarmac.api.egress.forwarding import Forwarder
from tarmac.decide.egress.numbers import next_transit, transit_address, transit_number
from tarmac.decide.egress.sourceresolution import Resolved, SourcePod
from tarmac.decide.egress.sources import Resolution
from tarmac.decide.egress.views import NodeView


class Way(NamedTuple):
    """The key of a transit address within one ExternalService."""

    node: str
    network: str
    address: str  # the SourceIP


class Ways:
    """Transit addresses of one ExternalService; existing ones are reused."""

    def __init__(self, found: Resolution, known: Mapping[str, Forwarder], taken: Container[int]) -> None:
        self._uid, self._family, self._others = found.service.metadata.uid, found.target.version, taken
        self.used: dict[Way, NodeView] = {}
        self._given: dict[Way, str] = {}
        for node, forwarder in known.items():
            for rule in (*forwarder.spec.egress_rules, *forwarder.spec.ingress_rules):
                if rule.transit_ip and (":" in rule.transit_ip) == (self._family == 6):
                    self._given[Way(node, rule.network, rule.gateway_ip)] = rule.transit_ip
        self._own = set(map(transit_number, self._given.values()))

    def __contains__(self, number: object) -> bool:
        """Return True if a transit number is taken, by this ExternalService or by the rest."""
        return isinstance(number, int) and (number in self._own or number in self._others)

    def transit(self, pod: SourcePod, source: Resolved) -> str:
        """Return the transit address for a pod under a source; allocate one if there is none yet."""
        way = Way(pod.node.name, pod.network, source.address)
        self.used[way] = pod.node
        if way not in self._given:
            number = next_transit(self._uid, *way, self)
            self._own.add(number)
            self._given[way] = transit_address(number, self._family)
        return self._given[way]

    def of(self, way: Way) -> str:
        """Return the address of a way in use."""
        return self._given[way]
