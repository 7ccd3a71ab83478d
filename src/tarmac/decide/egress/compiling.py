"""Compiles a resolved ExternalService into rules for each node with source pods and for each address they use.

The compiler reads no other ExternalService, so an invalid one affects only itself.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from tarmac.api.egress.externalservice import ExternalService, ServicePort
from tarmac.api.egress.forwarding import (
    ExternalServiceReference,
    Forwarder,
    ForwarderRule,
    ForwarderSpec,
    GatewayRule,
    PeerReference,
)
from tarmac.api.egress.names import NAMESPACE, forwarder_name
from tarmac.api.shared import Protocol
from tarmac.decide.egress.numbers import next_transit, transit_address, transit_number
from tarmac.decide.egress.sourceresolution import ResolvedSource, SourcePod
from tarmac.decide.egress.sources import Resolution
from tarmac.decide.egress.views import PortView
from tarmac.decide.pooled.nodeview import NodeView

# Allocation of transit addresses, under which connections travel between nodes.
#
# A transit address identifies (ExternalService, node, Network, SourceIP). It is kept for as long as the node's
# Forwarder has it, so edits and restarts move no connection.


class TransitKey(NamedTuple):
    """The key of a transit address within one ExternalService."""

    node: str
    network: str
    address: str  # the SourceIP


class TransitAddresses:
    """Transit addresses of one ExternalService; existing ones are reused."""

    def __init__(self, found: Resolution, known: Mapping[str, Forwarder], taken: Container[int]) -> None:
        self._uid, self._family, self._others = found.service.metadata.uid, found.target.version, taken
        self.used: dict[TransitKey, NodeView] = {}
        self._given: dict[TransitKey, str] = {}
        for node, forwarder in known.items():
            for rule in (*forwarder.spec.egress_rules, *forwarder.spec.ingress_rules):
                if rule.transit_ip and (":" in rule.transit_ip) == (self._family == 6):
                    self._given[TransitKey(node, rule.network, rule.gateway_ip)] = rule.transit_ip
        self._own = set(map(transit_number, self._given.values()))

    def __contains__(self, number: object) -> bool:
        """Return True if a transit number is taken, by this ExternalService or by the rest."""
        return isinstance(number, int) and (number in self._own or number in self._others)

    def transit(self, pod: SourcePod, source: ResolvedSource) -> str:
        """Return the transit address for a pod under a source; allocate one if there is none yet."""
        way = TransitKey(pod.node.name, pod.network, source.address)
        self.used[way] = pod.node
        if way not in self._given:
            number = next_transit(self._uid, *way, self)
            self._own.add(number)
            self._given[way] = transit_address(number, self._family)
        return self._given[way]

    def of(self, way: TransitKey) -> str:
        """Return the address of a way in use."""
        return self._given[way]


@dataclass(slots=True)
class GatewayPart:
    """The rules of one ExternalService at one address."""

    egress: list[GatewayRule] = field(default_factory=list[GatewayRule])
    ingress: list[GatewayRule] = field(default_factory=list[GatewayRule])


@dataclass(slots=True)
class Compiled:
    """Forwarders by node, and parts of Gateways by the name of the SourceIP."""

    forwarders: dict[str, ForwarderSpec] = field(default_factory=dict[str, ForwarderSpec])
    gateways: dict[str, GatewayPart] = field(default_factory=dict[str, GatewayPart])


def dial_port(port: ServicePort) -> int:
    """Return the port that Pods dial. A named target port refers to the port itself and means its number."""
    return port.target_port if isinstance(port.target_port, int) else port.port


def compile_service(found: Resolution, dialled: str, known: Mapping[str, Forwarder], taken: Container[int]) -> Compiled:
    """Compile the rules. `known` are its Forwarders by node; `taken` the transit numbers of other ExternalServices."""
    made, ways = Compiled(), TransitAddresses(found, known, taken)
    for source in found.working:
        assert source.source_ip is not None, "it works"
        part = made.gateways.setdefault(source.source_ip.metadata.name, GatewayPart())
        for pod in source.pods:
            if pod.node.name not in made.forwarders:
                made.forwarders[pod.node.name] = _forwarder(found.service, pod.node, dialled)
            rules = _outward(found, source, pod, ways.transit(pod, source))
            made.forwarders[pod.node.name].egress_rules += rules
        _inward(found, source, made, part, ways)
    _gateway_egress(found, made, ways)
    return made


def _forwarder(service: ExternalService, node: NodeView, dialled: str) -> ForwarderSpec:
    own = service.metadata
    return ForwarderSpec(
        external_service=ExternalServiceReference(own.namespace, own.name, own.uid),
        node_name=node.name,
        service_ip=dialled,
        forwarder_ip=node.address,
    )


def _reference(service: ExternalService, node: str) -> PeerReference:
    own = service.metadata
    return PeerReference(forwarder_name(own.namespace, own.name, node), NAMESPACE)


def _mark(source: ResolvedSource) -> int:
    status = source.source_ip.status if source.source_ip is not None else None
    return status.id if status is not None else 0


def _outward(found: Resolution, source: ResolvedSource, pod: SourcePod, transit: str) -> Iterator[ForwarderRule]:
    assert source.source_ip is not None, "it works"
    for port in found.service.spec.ports:
        yield ForwarderRule(
            protocol=port.protocol,
            source_ip=pod.address,
            target_port=dial_port(port),
            destination_ip=str(found.target),
            destination_port=port.port,
            gateway=PeerReference(source.source_ip.metadata.name, NAMESPACE),
            gateway_ip=source.address,
            pod=pod.uid,
            network=pod.network,
            transit_ip=transit,
            mark=_mark(source),
        )


def _gateway_egress(found: Resolution, made: Compiled, ways: TransitAddresses) -> None:
    """Add the gateways' egress rules: one per transit address and port, which covers all pods behind the address."""
    names = {source.address: source.source_ip.metadata.name for source in found.working if source.source_ip is not None}
    for way, node in sorted(ways.used.items(), key=lambda each: each[0]):
        for port in found.service.spec.ports:
            rule = GatewayRule(
                protocol=port.protocol,
                source_ip=ways.of(way),
                destination_ip=str(found.target),
                destination_port=port.port,
                forwarder=_reference(found.service, way.node),
                forwarder_ip=node.address,
            )
            made.gateways[names[way.address]].egress.append(rule)


def serving_pods(source: ResolvedSource) -> list[SourcePod]:
    """Return the pods that receive inbound connections: the ready ones, else those still serving while terminating."""
    ready = [pod for pod in source.pods if pod.endpoint.ready]
    return ready or [pod for pod in source.pods if pod.endpoint.serving]


def _inward(
    found: Resolution, source: ResolvedSource, made: Compiled, part: GatewayPart, ways: TransitAddresses
) -> None:
    for port in source.open_ports:
        weights: dict[tuple[str, str], int] = {}
        nodes: dict[str, NodeView] = {}
        for pod in serving_pods(source):
            number = next((each.number for each in pod.endpoint.ports if _is_same(each, port)), None)
            if number is None:
                continue
            transit = ways.transit(pod, source)
            made.forwarders[pod.node.name].ingress_rules.append(_arrival(found, source, pod, port, number, transit))
            nodes[pod.node.name] = pod.node
            weights[pod.node.name, transit] = weights.get((pod.node.name, transit), 0) + 1
        for (node, transit), weight in sorted(weights.items()):
            part.ingress.append(_entrance(found, source, port, nodes[node], transit, weight))


def _is_same(one: PortView, other: PortView) -> bool:
    return (one.name, one.protocol) == (other.name, other.protocol)


def _protocol(port: PortView) -> Protocol:
    return "UDP" if port.protocol == "UDP" else "SCTP" if port.protocol == "SCTP" else "TCP"


def _arrival(
    found: Resolution, source: ResolvedSource, pod: SourcePod, port: PortView, number: int, transit: str
) -> ForwarderRule:
    assert source.source_ip is not None, "it works"
    assert source.service is not None, "it works"
    return ForwarderRule(
        protocol=_protocol(port),
        source_ip=str(found.target),
        target_port=port.number,
        destination_ip=pod.address,
        destination_port=number,
        affinity="ClientIP" if source.service.client_affinity else "None",
        gateway=PeerReference(source.source_ip.metadata.name, NAMESPACE),
        gateway_ip=source.address,
        pod=pod.uid,
        network=pod.network,
        transit_ip=transit,
        mark=_mark(source),
    )


def _entrance(
    found: Resolution, source: ResolvedSource, port: PortView, node: NodeView, transit: str, weight: int
) -> GatewayRule:
    assert source.service is not None, "it works"
    return GatewayRule(
        protocol=_protocol(port),
        source_ip=str(found.target),
        target_port=port.number,
        destination_ip=transit,
        destination_port=port.number,
        affinity="ClientIP" if source.service.client_affinity else "None",
        forwarder=_reference(found.service, node.name),
        forwarder_ip=node.address,
        weight=weight,
    )
