"""Computes a node's desired `IngressState` from PublicAddresses, pools, Services and their EndpointSlices. Pure.

The holder of an address is the one in the PublicAddress's spec, by uid; statuses are never believed. A slice may be
written by hand and name anything: an endpoint on this node counts only if a pod of the Service's namespace has that
address on that Network here. Endpoints of other nodes are checked there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from typing import Final, NamedTuple

from tarmac.agent.egress.compiling import Interfaces, NoOutsideInterface, outside_of
from tarmac.agent.ingress.servicefacts import (
    IngressService,
    OwnNode,
    Place,
    ServiceHealth,
    holder_key,
    pool_ranges,
    references,
    slice_key,
)
from tarmac.agent.ingress.tunnelends import TunnelEnds, tunnel_ends
from tarmac.agent.network.compiler.networkstate import is_address
from tarmac.api.ingress.addresspool import AddressPool, announcement
from tarmac.api.ingress.bgppeer import BGPPeer
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.networking.names import ANNOTATION_NETWORK, NODE_PORTS
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.datapath import ingress as wanted
from tarmac.datapath.egress import Transport
from tarmac.datapath.ingress import IngressState, LocalBackend, OpenPort
from tarmac.decide import reasons
from tarmac.decide.ingress.selecting import is_gateway
from tarmac.decide.ingress.targets import (
    ANYCAST,
    LOCAL,
    GatewayState,
    IngressEndpoint,
    Leads,
    silence,
    untested,
    usable,
    weights,
)
from tarmac.decide.reach.partialobjects import SliceFacts

_FAMILIES: Final = {"IPv4": 4, "IPv6": 6}


@dataclass(frozen=True, slots=True)
class IngressObjects:
    """The objects that public addresses depend on. `services` by namespace/name, `endpoints` by node.

    `passwords` are those of BGP sessions, by the name of their Secret.
    """

    addresses: Sequence[PublicAddress] = ()
    pools: Mapping[str, AddressPool] = field(default_factory=dict[str, AddressPool])
    services: Mapping[str, IngressService] = field(default_factory=dict[str, IngressService])
    slices: Sequence[SliceFacts] = ()
    endpoints: Mapping[str, TunnelEndpoint] = field(default_factory=dict[str, TunnelEndpoint])
    places: Set[Place] = frozenset()  # of the pods of this node
    peers: Mapping[str, BGPPeer] = field(default_factory=dict[str, BGPPeer])
    node: OwnNode = field(default_factory=OwnNode)
    passwords: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def empty(self) -> bool:
        """True if there are neither addresses nor pools nor peers nor Services with node ports."""
        return not self.addresses and not self.pools and not self.peers and not self.services


@dataclass(slots=True)
class CompiledIngress:
    """The desired state; the addresses that this node can own, or announce by BGP; and by address why it does not.

    `routed` has the pool of each address that this node is a gateway of by BGP, `health` the Services whose health is
    asked, by port. `tests` has the TCP port of each address at which this gateway tests it.
    """

    state: IngressState
    ownable: frozenset[str] = frozenset()
    announced: frozenset[str] = frozenset()
    routed: dict[str, str] = field(default_factory=dict[str, str])
    reasons: dict[str, str] = field(default_factory=dict[str, str])
    health: dict[int, ServiceHealth] = field(default_factory=dict[int, ServiceHealth])
    tests: dict[str, int] = field(default_factory=dict[str, int])


class LocalNode(NamedTuple):
    """This node: its name, the end of its tunnels, its Location, its interfaces, and the ranges of its Networks."""

    name: str
    address: str
    location: str
    interfaces: Interfaces
    networks: Mapping[str, Sequence[str]]


class _Target(NamedTuple):
    """An endpoint of a port."""

    node: str
    network: str
    address: str
    port: int
    ready: bool
    serving: bool


class _Port(NamedTuple):
    """A port of a holder, by the name that it has in slices."""

    name: str
    protocol: str
    number: int


class _Holder(NamedTuple):
    """A Service or Workload that holds an address, with its slices. A Workload has no `service`."""

    namespace: str
    ports: Sequence[_Port]
    slices: Sequence[SliceFacts]
    service: IngressService | None = None

    @property
    def leads(self) -> Leads:
        """The traffic policy."""
        if self.service is None:
            return ANYCAST
        return LOCAL if self.service.local else "Cluster"


def compile_ingress(
    here: LocalNode, objects: IngressObjects, tested: Callable[[str], GatewayState] | None = None
) -> CompiledIngress:
    """Compute the node's whole desired state of public addresses.

    `tested` returns this gateway with the result of its own connections to an address; without it all count as passed.
    """
    if objects.empty:
        return CompiledIngress(IngressState(here.address))
    slices = _by_holder(objects.slices)
    holders = {each.metadata.name: list(_holders(each, objects.services, slices)) for each in objects.addresses}
    concerned = {each.node_name for one in objects.slices for each in one.endpoints or () if each.node_name}
    concerned |= {each.name for address in objects.addresses for each in address.spec.candidates}
    ends = tunnel_ends(here.name, here.address, here.location, objects.endpoints, concerned)
    found: list[wanted.IngressAddress] = []
    ownable, announced, routed, reasons_by_address = set[str](), set[str](), dict[str, str](), dict[str, str]()
    tests = dict[str, int]()
    # Sorted: a different order would compare as a change, and all rules would be written again.
    for each in sorted(objects.addresses, key=lambda one: one.spec.address):
        pool = objects.pools.get(each.spec.pool_name)
        if pool is None or not is_address(each.spec.address) or not holders[each.metadata.name]:
            continue
        made = _address(here, each.spec.address, holders[each.metadata.name], ends, objects.places)
        made = _limited(made, pool)
        if announcement(pool.spec) != "bgp":
            made, reason = _on_its_segment(here, each, pool, made)
        elif is_gateway(pool.spec, objects.node.labels):
            # Also while it is withdrawn: packets that are on their way, or of a route that ends late, are carried.
            made, routed[made.address] = replace(made, routed=True), pool.metadata.name
            reason = _silence(here, made.address, holders[each.metadata.name], ends, objects)
        else:
            reason = ""
        if (made.outside is not None or made.routed) and not reason and (port := _tested_port(here, made)):
            tests[made.address] = port
            reason = untested(tested(made.address)) if tested is not None else ""
        if made.outside is not None and not reason:
            ownable.add(made.address)
        if made.routed and not reason:
            announced.add(made.address)
        reasons_by_address[made.address] = reason
        found.append(made)
    doors = _doors(objects.services, slices)
    node_ports = list(_node_ports(here, doors, ends, objects.places))
    # Also those without a backend: draining endpoints answer the connections that they have.
    used = {network for one in objects.addresses for network in _networks_here(here, one, holders, objects.places)}
    used |= {network for version in (4, 6) for network in _local_networks(here, doors, version, objects.places)}
    ranges = {*pool_ranges(objects.pools.values()), *(str(ip_network(each.address)) for each in node_ports)}
    state = IngressState(
        here.address,
        (*found, *node_ports),
        tuple(sorted(ranges)),
        tuple(sorted(set(ends.addresses.values()))),
        {network: tuple(here.networks[network]) for network in sorted(used & here.networks.keys())},
        ends.encrypted,
    )
    health = dict(_health(here, each, slices, objects.places) for each in objects.services.values() if each.health_port)
    return CompiledIngress(state, frozenset(ownable), frozenset(announced), routed, reasons_by_address, health, tests)


def _networks_here(
    here: LocalNode, address: PublicAddress, holders: Mapping[str, Sequence[_Holder]], places: Set[Place]
) -> Iterator[str]:
    """Yield the Networks of an address's endpoints on this node."""
    yield from _local_networks(here, holders[address.metadata.name], _version(address.spec.address), places)


def _local_networks(here: LocalNode, holders: Iterable[_Holder], version: int, places: Set[Place]) -> Iterator[str]:
    """Yield the Networks of the endpoints on this node."""
    for holder in holders:
        for port in holder.ports:
            for each in _targets(port.name, version, holder.slices):
                if each.node == here.name and (holder.namespace, each.network, each.address) in places:
                    yield each.network


def _doors(services: Mapping[str, IngressService], slices: Mapping[str, Sequence[SliceFacts]]) -> list[_Holder]:
    """Return the Services with node ports, by these ports."""
    found: list[_Holder] = []
    for key, each in sorted(services.items()):
        if each.has_node_ports:
            ports = [
                _Port(port.name, port.protocol, port.node_port) for port in each.spec.ports or () if port.node_port
            ]
            found.append(_Holder(each.metadata.namespace, ports, slices.get(key, ()), each))
    return found


def _node_ports(
    here: LocalNode, doors: Sequence[_Holder], ends: TunnelEnds, places: Set[Place]
) -> Iterator[wanted.IngressAddress]:
    """Yield the addresses that node ports are translated to, of the families that Services have."""
    for address in NODE_PORTS:
        version = _version(address)
        mine = [door for door in doors if any(_FAMILIES.get(each.address_type) == version for each in door.slices)]
        made = _address(here, address, mine, ends, places)
        if made.ports:
            yield made


def _health(
    here: LocalNode, service: IngressService, slices: Mapping[str, Sequence[SliceFacts]], places: Set[Place]
) -> tuple[int, ServiceHealth]:
    """Return the port at which the health of a Service is asked, and its ready endpoints on this node."""
    own = service.metadata
    ready = {
        (each.network, each.address)
        for port in service.spec.ports or ()
        for version in (4, 6)
        for each in _targets(port.name, version, slices.get(service.key, ()))
        if each.ready and each.node == here.name and (own.namespace, each.network, each.address) in places
    }
    return service.health_port, ServiceHealth(own.namespace, own.name, len(ready))


def _holders(
    address: PublicAddress, services: Mapping[str, IngressService], slices: Mapping[str, Sequence[SliceFacts]]
) -> Iterator[_Holder]:
    """Yield the holders of an address, the first in line first. A Service made again under its name is none."""
    for each in references(address):
        mine = slices.get(holder_key(each), ())
        if each.kind == "Workload":
            yield _Holder(each.namespace, _declared(mine), mine)
        # Of another type it gives the address up, and its node ports lead elsewhere.
        elif (service := services.get(holder_key(each))) is not None and service.holds(each.uid):
            ports = [_Port(port.name, port.protocol, port.port) for port in service.spec.ports or ()]
            yield _Holder(each.namespace, ports, mine, service)


def _declared(slices: Iterable[SliceFacts]) -> list[_Port]:
    """Return the ports of a Workload: a connection goes to the same port of an endpoint."""
    named = (own for each in slices for own in each.ports or () if own.port)
    return sorted({_Port(own.name, own.protocol, own.port) for own in named if own.port})


def _by_holder(slices: Iterable[SliceFacts]) -> dict[str, list[SliceFacts]]:
    found: dict[str, list[SliceFacts]] = {}
    # By name: the result must not depend on the order of watch events.
    for each in sorted(slices, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        if key := slice_key(each):
            found.setdefault(key, []).append(each)
    return found


def _version(address: str) -> int:
    return 6 if ":" in address else 4


def _address(
    here: LocalNode, address: str, holders: Iterable[_Holder], ends: TunnelEnds, places: Set[Place]
) -> wanted.IngressAddress:
    """Return the address with its ports."""
    ports: dict[tuple[str, int], OpenPort] = {}
    answerers, version = set[str](), _version(address)
    for holder in holders:
        # Once for all ports: each may be as many as the other.
        clients = holder.service.clients(version) if holder.service is not None else None
        for each in holder.ports:
            if (each.protocol, each.number) in ports:
                continue  # of an earlier holder
            targets = [
                one
                for one in _targets(each.name, version, holder.slices)
                if one.node != here.name or (holder.namespace, one.network, one.address) in places
            ]
            answerers |= {ends.addresses[one.node] for one in targets if one.node in ends.addresses}
            ports[each.protocol, each.number] = _port(here, holder, each, targets, ends, clients)
    made = tuple(ports[key] for key in sorted(ports))
    return wanted.IngressAddress(address, made, tuple(sorted(answerers)))


def _targets(port: str, version: int, slices: Sequence[SliceFacts]) -> Iterator[_Target]:
    """Yield the endpoints of a port."""
    for each in slices:
        network = (each.metadata.annotations or {}).get(ANNOTATION_NETWORK, "")
        numbers = [own.port for own in each.ports or () if own.name == port and own.port]
        if not network or _FAMILIES.get(each.address_type) != version or not numbers:
            continue
        for endpoint in each.endpoints or ():
            address = next(iter(endpoint.addresses), "")
            if endpoint.node_name and is_address(address):
                serving = endpoint.conditions.serving
                serves = endpoint.ready if serving is None else serving
                yield _Target(endpoint.node_name, network, address, numbers[0], endpoint.ready, serves)


def _port(
    here: LocalNode,
    holder: _Holder,
    port: _Port,
    targets: Iterable[_Target],
    ends: TunnelEnds,
    clients: tuple[str, ...] | None,
) -> OpenPort:
    known = [each for each in targets if each.node in ends.addresses]
    endpoints = {
        each: IngressEndpoint(each.node, ends.locations[each.node], each.ready, each.serving) for each in known
    }
    chosen = weights(holder.leads, here.name, here.location, list(endpoints.values()))
    able = usable(list(endpoints.values()))
    backends = {
        LocalBackend(each.network, each.address, each.port)
        for each, endpoint in endpoints.items()
        if each.node == here.name and endpoint in able
    }
    transport: Transport = "UDP" if port.protocol == "UDP" else "SCTP" if port.protocol == "SCTP" else "TCP"
    nodes = tuple(sorted((ends.addresses[node], weight) for node, weight in chosen.items()))
    made = OpenPort(transport, port.number, nodes, tuple(sorted(backends)))
    if holder.service is None:
        return made
    affinity = holder.service.spec.session_affinity == "ClientIP"
    return replace(made, clients=clients, affinity=affinity)


def _silence(
    here: LocalNode, address: str, holders: Iterable[_Holder], ends: TunnelEnds, objects: IngressObjects
) -> str:
    """Return the reason why this gateway does not announce an address by BGP; empty if it does, for one holder."""
    gateway = GatewayState(here.name, here.location, draining=objects.node.cordoned)
    version = _version(address)
    found = [
        silence(holder.leads, gateway, list(_endpoints(here, holder, ends, objects.places, version)))
        for holder in holders
    ]
    return "" if "" in found else found[0]


def _limited(made: wanted.IngressAddress, pool: AddressPool) -> wanted.IngressAddress:
    limits = pool.spec.limits
    if limits is None:
        return made
    return replace(made, new_per_second=limits.new_per_second, connections=limits.connections)


def _tested_port(here: LocalNode, made: wanted.IngressAddress) -> int:
    """Return the TCP port at which the node tests an address; 0 if rules suffice, since it may use none."""
    usable = (each.port for each in made.ports if each.protocol == "TCP" and each.nodes and each.admits(here.address))
    return next(usable, 0)


def _endpoints(
    here: LocalNode, holder: _Holder, ends: TunnelEnds, places: Set[Place], version: int
) -> Iterator[IngressEndpoint]:
    """Yield the endpoints of a holder that are on known nodes."""
    for port in holder.ports:
        for each in _targets(port.name, version, holder.slices):
            is_here = each.node == here.name
            if each.node in ends.addresses and (
                not is_here or (holder.namespace, each.network, each.address) in places
            ):
                yield IngressEndpoint(each.node, ends.locations[each.node], each.ready, each.serving)


def _on_its_segment(
    here: LocalNode, address: PublicAddress, pool: AddressPool, made: wanted.IngressAddress
) -> tuple[wanted.IngressAddress, str]:
    """Return the address with its segment, if this node is a candidate, and why it must not own it, if so."""
    if not any(each.name == here.name for each in address.spec.candidates):
        return made, ""
    try:
        outside = outside_of(pool.spec.subnet, made.address, here.interfaces)
    except NoOutsideInterface:
        return made, reasons.NO_OUTSIDE_INTERFACE
    made = replace(made, outside=replace(outside, virtual=announcement(pool.spec) == "virtualMAC"))
    if not any(port.nodes for port in made.ports):
        # An address that leads nowhere is not announced: clients get an error instead of silence.
        return made, reasons.NO_ENDPOINTS
    return made, ""
