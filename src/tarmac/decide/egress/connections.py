"""Live connections of an ExternalService, joined from the reports of forwarding nodes and gateways.

The forwarding node knows the pod, the gateway knows the SourceIP and port seen outside; both know the transit address.
A node is queried if a Forwarder or Gateway of the ExternalService names it. Its report is trusted only for its own
transit addresses and for the SourceIPs it owns; the rest is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from tarmac.api.checks import mapping, objects
from tarmac.api.egress.connections import (
    MAX_CONNECTIONS,
    CarriedConnection,
    ExternalConnection,
    ForwardedConnection,
    NodeConnections,
)
from tarmac.api.egress.names import end_point
from tarmac.api.schema import JsonObject
from tarmac.base.clock import rfc3339

Transit = tuple[str, int, str, str, int]
"""Join key known to both ends of a tunnel: transit address and port, protocol, target and its port."""


class Relays(NamedTuple):
    """Participating nodes: transit addresses by forwarding node, SourceIPs by the gateway that reports owning them."""

    transits: Mapping[str, set[str]]
    owners: Mapping[str, set[str]]

    @property
    def nodes(self) -> list[str]:
        """The nodes to query."""
        return sorted({*self.transits, *self.owners})


def gateways_of(forwarders: Iterable[JsonObject]) -> set[str]:
    """Return the names of the Gateways that these Forwarders send to."""
    return {mapping(rule, "gateway").get("name", "") for each in forwarders for rule in _rules(each)} - {""}


def relays_of(forwarders: Iterable[JsonObject], gateways: Iterable[JsonObject]) -> Relays:
    """Return the participating nodes of an ExternalService from its Forwarders and their Gateways."""
    transits: dict[str, set[str]] = {}
    for each in forwarders:
        own = transits.setdefault(each["spec"]["nodeName"], set())
        own.update(rule.get("transitip", "") for rule in _rules(each))
    owners: dict[str, set[str]] = {}
    for gateway in gateways:
        for node in objects(mapping(gateway, "status"), "nodes"):
            if node.get("owner"):
                owners.setdefault(node["name"], set()).add(mapping(gateway, "spec").get("gatewayip", ""))
    return Relays(transits, owners)


def joined(
    answers: Mapping[str, NodeConnections], relays: Relays
) -> Iterator[tuple[ForwardedConnection, ExternalConnection]]:
    """Yield each forwarded connection with its gateway's report. Reports about addresses of other nodes are ignored."""
    carried: dict[Transit, tuple[str, CarriedConnection]] = {}
    for node, answer in answers.items():
        for each in answer.carried[:MAX_CONNECTIONS]:
            if each.source_ip in relays.owners.get(node, ()):
                key = (each.transit, each.transit_port, each.protocol, each.target, each.target_port)
                carried[key] = (node, each)
    for node, answer in sorted(answers.items()):
        for one in answer.forwarded[:MAX_CONNECTIONS]:
            if one.transit in relays.transits.get(node, ()):
                key = (one.transit, one.transit_port, one.protocol, one.target, one.target_port)
                yield one, _shown(node, one, *carried.get(key, ("", None)))


def _rules(forwarder: JsonObject) -> list[JsonObject]:
    spec = mapping(forwarder, "spec")
    return [*objects(spec, "egressrules"), *objects(spec, "ingressrules")]


def _shown(node: str, one: ForwardedConnection, gateway: str, other: CarriedConnection | None) -> ExternalConnection:
    return ExternalConnection(
        pod=one.pod,
        node=node,
        protocol=one.protocol,
        direction=one.direction,
        dialled=end_point(one.dialled, one.dialled_port),
        target=end_point(one.target, one.target_port),
        source_ip=other.source_ip if other is not None else "",
        source_port=other.source_port if other is not None else 0,
        gateway=gateway,
        bytes_out=one.bytes_out,
        bytes_in=one.bytes_in,
        since=rfc3339(one.since) if one.since > 0 else "",
    )
