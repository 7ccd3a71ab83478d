"""Computes a node's desired `EgressState` from its Forwarders and the Gateways. Pure.

A rule is for the pod with one uid. It applies only while that pod is on this node with that address on that Network,
since addresses are reused. An incomplete rule is reported on its own object and does not affect other objects.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_interface, ip_network
from sys import intern

from tarmac.api.egress.forwarding import Forwarder, ForwarderRule, Gateway, GatewayRule, RuleError
from tarmac.api.egress.names import forwarded_service
from tarmac.api.egress.sourceip import ClassSubnet
from tarmac.base.quantity import Quantity
from tarmac.datapath.egress import (
    Arrival,
    Departure,
    EgressState,
    EncryptedPeer,
    Entrance,
    Exit,
    Forwarding,
    OutsideLink,
    SourceAddress,
)

Places = Mapping[str, Set[tuple[str, str]]]
"""Uid of each pod of this node -> its Networks and its addresses there."""

Interfaces = Mapping[str, Sequence[str]]


class NoOutsideInterface(LookupError):
    """The node has no interface on the segment of an address."""


@dataclass(slots=True)
class CompiledEgress:
    """The desired state, and by object name the rules that could not become part of it."""

    state: EgressState
    ownable: frozenset[str]  # addresses
    problems: dict[str, list[RuleError]] = field(default_factory=dict[str, list[RuleError]])


def concerns(gateway: Gateway, node: str, used: Set[str]) -> bool:
    """Return True if a Gateway concerns this node.

    The node is a current or former candidate or a voter, or its pods use the Gateway.
    """
    return gateway.metadata.name in used or node in gateway.spec.concerned


def used_gateways(forwarders: Iterable[Forwarder]) -> set[str]:
    """Return the names of the Gateways that the pods of this node send through."""
    return {rule.gateway.name for each in forwarders for rule in _rules(each) if rule.gateway is not None}


def wanted_pods(forwarders: Iterable[Forwarder]) -> set[str]:
    """Return the uids of the pods that rules refer to."""
    return {rule.pod for each in forwarders for rule in _rules(each)}


def compile_state(
    node: str,
    node_address: str,
    forwarders: Iterable[Forwarder],
    gateways: Collection[Gateway],
    places: Places,
    interfaces: Interfaces,
    partner: str = "",
    *,
    encrypt: bool = True,
) -> CompiledEgress:
    """Compute the node's whole desired state. Without `encrypt`, tunnels between cities are not encrypted."""
    problems: dict[str, list[RuleError]] = {}
    forwardings = [
        _forwarding(each, problems, places) for each in forwarders if _is_ours(each, node, node_address, problems)
    ]
    sources = {each.spec.gateway_ip: _source(each, node, interfaces, problems) for each in gateways}
    for way in (way for each in forwardings for way in each.ways):
        sources.setdefault(way.source, None)
    known = tuple(each for each in sources.values() if each is not None)
    ownable = frozenset(each.address for each in known if each.outside is not None)
    nodes = {each.name: each.address for gateway in gateways for each in gateway.spec.candidates}
    state = EgressState(node_address, tuple(forwardings), known, nodes.get(partner, ""))
    if encrypt:
        state = replace(state, peers=tunnel_peers(node, state, gateways))
    return CompiledEgress(state, ownable, problems)


def service_of(forwarder: Forwarder) -> str:
    """Return the ExternalService of a Forwarder."""
    owner = forwarder.spec.external_service
    return f"{owner.namespace}/{owner.name}" if owner is not None else forwarder.metadata.name


def _is_ours(forwarder: Forwarder, node: str, node_address: str, problems: dict[str, list[RuleError]]) -> bool:
    spec = forwarder.spec
    if spec.node_name != node:
        return False
    if spec.forwarder_ip not in ("", node_address):
        message = f"it is for tunnels that end at {spec.forwarder_ip}, and this node's end at {node_address}"
        problems[forwarder.metadata.name] = [RuleError("forwarderip", message)]
        return False
    return True


def _forwarding(forwarder: Forwarder, problems: dict[str, list[RuleError]], places: Places) -> Forwarding:
    spec, absent = forwarder.spec, list[RuleError]()
    departures = [
        _departure(rule, spec.service_ip)
        for rule in spec.egress_rules
        if _is_here(rule, rule.source_ip, places, absent)
    ]
    arrivals = [_arrival(rule) for rule in spec.ingress_rules if _is_here(rule, rule.destination_ip, places, absent)]
    if absent:
        problems[forwarder.metadata.name] = absent[:1]
    return Forwarding(service_of(forwarder), tuple(departures), tuple(arrivals))


def _is_here(rule: ForwarderRule, address: str, places: Places, absent: list[RuleError]) -> bool:
    if (rule.network, address) in places.get(rule.pod, ()):
        return True
    absent.append(RuleError(f"{rule.pod} {address}", f"no pod of that uid is here with {address} on {rule.network}"))
    return False


def _departure(rule: ForwarderRule, dialled: str) -> Departure:
    # Interned: thousands of rules repeat the same few texts.
    return Departure(
        network=intern(rule.network),
        pod=intern(rule.source_ip),
        dialled=dialled,
        protocol=rule.protocol,
        port=rule.target_port,
        target=intern(rule.destination_ip),
        target_port=rule.destination_port,
        transit=intern(rule.transit_ip),
        source=intern(rule.gateway_ip),
    )


def _arrival(rule: ForwarderRule) -> Arrival:
    return Arrival(
        network=intern(rule.network),
        target=intern(rule.source_ip),
        transit=intern(rule.transit_ip),
        protocol=rule.protocol,
        port=rule.target_port,
        endpoint=(intern(rule.destination_ip), rule.destination_port),
        source=intern(rule.gateway_ip),
        affinity=rule.affinity == "ClientIP",
    )


def _rules(forwarder: Forwarder) -> Iterator[ForwarderRule]:
    yield from forwarder.spec.egress_rules
    yield from forwarder.spec.ingress_rules


def _source(
    gateway: Gateway, node: str, interfaces: Interfaces, problems: dict[str, list[RuleError]]
) -> SourceAddress | None:
    """Return the node's view of a SourceIP: all of it on candidates, elsewhere only the addresses of the candidates."""
    spec = gateway.spec
    candidates = tuple(each.address for each in spec.candidates if each.address)
    if not any(each.name == node for each in spec.candidates):
        return SourceAddress(spec.gateway_ip, spec.mark, candidates) if candidates else None
    try:
        found = outside_of(spec.subnet, spec.gateway_ip, interfaces)
        outside = replace(found, virtual=spec.announce == "virtualMAC")
    except NoOutsideInterface as error:
        problems[gateway.metadata.name] = [RuleError(spec.gateway_ip, str(error))]
        return SourceAddress(spec.gateway_ip, spec.mark, candidates)
    limits = spec.limits
    return SourceAddress(
        spec.gateway_ip,
        spec.mark,
        candidates,
        outside,
        exits=tuple(
            Exit(
                rule.source_ip,
                rule.forwarder_ip,
                rule.destination_ip,
                rule.protocol,
                rule.destination_port,
                _service(rule),
            )
            for rule in spec.egress_rules
        ),
        entrances=tuple(
            Entrance(
                rule.source_ip,
                rule.protocol,
                rule.target_port,
                rule.destination_ip,
                rule.forwarder_ip,
                max(1, rule.weight),
                rule.affinity == "ClientIP",
                _service(rule),
            )
            for rule in spec.ingress_rules
        ),
        connections=limits.connections if limits is not None else None,
        out_rate=_rate(limits.egress_bandwidth) if limits is not None else None,
        in_rate=_rate(limits.ingress_bandwidth) if limits is not None else None,
    )


def _service(rule: GatewayRule) -> str:
    return forwarded_service(rule.forwarder.name) if rule.forwarder is not None else ""


def _rate(quantity: Quantity | None) -> int | None:
    return None if quantity is None else max(1, quantity.value())


def outside_of(subnet: ClassSubnet | None, address: str, interfaces: Interfaces) -> OutsideLink:
    """Return the interface, segment and router of an address. Raises NoOutsideInterface."""
    parsed, named = ip_address(address), subnet.interface if subnet is not None else ""
    if named and named not in interfaces:
        raise NoOutsideInterface(f"the node has no interface {named}")
    router = _of_family(subnet.gateway, parsed.version) if subnet is not None else ""
    length = subnet.prefix_length if subnet is not None else None
    network = ip_network((int(parsed), length), strict=False) if length and length <= parsed.max_prefixlen else None
    if network is not None and network.version != parsed.version:
        network = None
    for name, written in interfaces.items():
        for own in map(ip_interface, written):
            if own.version != parsed.version or (named and name != named):
                continue
            if parsed in own.network or (network is not None and own.ip in network):
                return OutsideLink(name, str(network or own.network), router)
    if named and network is not None:
        return OutsideLink(named, str(network), router)
    where = f"interface {named} has" if named else "no interface of the node has"
    raise NoOutsideInterface(f"{where} {'no' if named else 'an'} address on the segment of {address}")


def _of_family(address: str, version: int) -> str:
    return address if address and ip_address(address).version == version else ""


# Peers of the encrypted tunnel: nodes of other cities that take part in the same external services.
#
# Nodes cannot read each other's Node objects. Gateways state the city and the key of each node, this one included. A
# node without such a statement, or with contradicting ones, is closed: no packet is sent to it or accepted from it. So
# a node that claims a peer's address gains nothing.


def tunnel_peers(node: str, state: EgressState, gateways: Iterable[Gateway]) -> tuple[EncryptedPeer, ...]:
    """Return the nodes that a state sends to or accepts, except those that all Gateways place in this node's city."""
    others = _other_nodes(state)
    if not others:
        return ()
    stated_peers: dict[str, set[EncryptedPeer | None]] = {}  # None: in this node's city
    for gateway in gateways:
        named = {each.name: each for each in (*gateway.spec.candidates, *gateway.spec.senders)}
        for each in named.values() if node in named else ():
            is_near = each.city == named[node].city
            stated_peers.setdefault(each.address, set()).add(
                None if is_near else EncryptedPeer(each.address, each.public_key)
            )
    found = {address: stated_peers.get(address, set()) for address in sorted(others)}
    agreed = {address: next(iter(of)) if len(of) == 1 else EncryptedPeer(address) for address, of in found.items()}
    return tuple(each for each in agreed.values() if each is not None)


def _other_nodes(state: EgressState) -> set[str]:
    """Return the addresses of all other nodes that packets of a state may come from or go to."""
    used = {way.source for each in state.forwardings for way in each.ways}
    found = {
        node
        for each in state.sources
        if each.outside is not None or each.address in used
        for node in (*each.candidates, *(way.node for way in (*each.exits, *each.entrances)))
    }
    return (found | {state.partner}) - {state.node_address, ""}
