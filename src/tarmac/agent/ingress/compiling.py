"""Computes a node's desired `IngressState` from PublicAddresses, pools, Services and their EndpointSlices. Pure.

The holder of an address is the one in the PublicAddress's spec, by uid; statuses are never believed. A slice may be
written by hand and name anything: an endpoint on this node counts only if a pod of the Service's namespace has that
address on that Network here. Endpoints of other nodes are checked there.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final, NamedTuple

from tarmac.agent.egress.compiling import Interfaces, NoOutsideInterface, outside_of
from tarmac.agent.ingress.facts import SERVICE_NAME, IngressService, pool_ranges
from tarmac.agent.network.compiler.state import is_address
from tarmac.api.ingress.addresspool import AddressPool, announcement
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.networking.names import ANNOTATION_NETWORK
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.datapath import ingress as wanted
from tarmac.datapath.egress import Transport
from tarmac.datapath.ingress import MAX_NODES, IngressState, LocalBackend, OpenPort
from tarmac.decide import reasons
from tarmac.decide.ingress.targets import LOCAL, IngressEndpoint, Leads, usable, weights
from tarmac.decide.reach.facts import SliceFacts

_FAMILIES: Final = {"IPv4": 4, "IPv6": 6}


Place = tuple[str, str, str]
"""A namespace, and a Network and an address there of one of its pods."""


@dataclass(frozen=True, slots=True)
class IngressObjects:
    """The objects that public addresses depend on. `services` by namespace/name, `endpoints` by node."""

    addresses: Sequence[PublicAddress] = ()
    pools: Mapping[str, AddressPool] = field(default_factory=dict[str, AddressPool])
    services: Mapping[str, IngressService] = field(default_factory=dict[str, IngressService])
    slices: Sequence[SliceFacts] = ()
    endpoints: Mapping[str, TunnelEndpoint] = field(default_factory=dict[str, TunnelEndpoint])
    places: Set[Place] = frozenset()  # of the pods of this node

    @property
    def empty(self) -> bool:
        """True if there are neither addresses nor pools."""
        return not self.addresses and not self.pools


@dataclass(slots=True)
class CompiledIngress:
    """The desired state; the addresses that this node can own; and by address why it does not announce it."""

    state: IngressState
    ownable: frozenset[str] = frozenset()
    reasons: dict[str, str] = field(default_factory=dict[str, str])


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


def compile_ingress(here: LocalNode, objects: IngressObjects) -> CompiledIngress:
    """Compute the node's whole desired state of public addresses."""
    if objects.empty:
        return CompiledIngress(IngressState(here.address))
    ends = _tunnel_ends(here, objects.endpoints)
    slices = _by_service(objects.slices)
    found: list[wanted.IngressAddress] = []
    ownable, told = set[str](), dict[str, str]()
    for each in sorted(objects.addresses, key=lambda one: one.spec.address):
        pool = objects.pools.get(each.spec.pool_name)
        if pool is None or not is_address(each.spec.address):
            continue
        made = _address(here, each, objects.services, slices, ends, objects.places)
        if made is None:
            continue
        made, reason = _on_its_segment(here, each, pool, made)
        if made.outside is not None and not reason:
            ownable.add(made.address)
        told[made.address] = reason
        found.append(made)
    # Also those without a backend: draining endpoints answer the connections that they have.
    used = {each.network for each in _held_here(here, objects, slices)}
    state = IngressState(
        here.address,
        tuple(found),
        pool_ranges(objects.pools.values()),
        tuple(sorted(set(ends.values()))),
        {network: tuple(here.networks[network]) for network in sorted(used & here.networks.keys())},
    )
    return CompiledIngress(state, frozenset(ownable), told)


def _held_here(
    here: LocalNode,
    objects: IngressObjects,
    slices: Mapping[str, Sequence[SliceFacts]],
) -> Iterator[_Target]:
    """Yield the endpoints on this node of all held addresses."""
    for address in objects.addresses:
        version = 6 if ":" in address.spec.address else 4
        for service in holders(address, objects.services):
            for port in service.spec.ports or ():
                for each in _targets(port.name, version, slices.get(service.key, ())):
                    if (
                        each.node == here.name
                        and (service.metadata.namespace, each.network, each.address) in objects.places
                    ):
                        yield each


def holders(address: PublicAddress, services: Mapping[str, IngressService]) -> Iterator[IngressService]:
    """Yield the Services that hold an address, the first in line first. One made again under its name does not."""
    spec = address.spec
    for each in (spec.claim_ref, *spec.shared_by):
        service = services.get(f"{each.namespace}/{each.name}") if each and each.kind == "Service" else None
        if each is not None and service is not None and each.uid and service.metadata.uid == each.uid:
            yield service


def _tunnel_ends(here: LocalNode, endpoints: Mapping[str, TunnelEndpoint]) -> dict[str, str]:
    """Return the tunnel ends of the nodes at this node's Location, by name.

    Packets of clients are not encrypted, so they do not leave the Location.
    """
    six = ":" in here.address
    found: dict[str, str] = {}
    for name, each in sorted(endpoints.items()):
        own = next((one for one in each.addresses if (":" in one) == six and is_address(one)), "")
        # Two nodes that claim one address: the first by name has it, as in all other compilations.
        if own and each.location == here.location and own not in found.values() and name != here.name:
            found[name] = own
    return dict(list(found.items())[:MAX_NODES]) | {here.name: here.address}


def _by_service(slices: Iterable[SliceFacts]) -> dict[str, list[SliceFacts]]:
    found: dict[str, list[SliceFacts]] = {}
    for each in sorted(slices, key=lambda one: (one.metadata.namespace, one.metadata.name)):
        name = (each.metadata.labels or {}).get(SERVICE_NAME, "")
        if name:
            found.setdefault(f"{each.metadata.namespace}/{name}", []).append(each)
    return found


def _address(
    here: LocalNode,
    address: PublicAddress,
    services: Mapping[str, IngressService],
    slices: Mapping[str, Sequence[SliceFacts]],
    ends: Mapping[str, str],
    places: Set[Place],
) -> wanted.IngressAddress | None:
    """Return the address with its ports; None without a holder."""
    ports: dict[tuple[str, int], OpenPort] = {}
    answerers, held, version = set[str](), False, 6 if ":" in address.spec.address else 4
    for service in holders(address, services):
        held = True
        for each in service.spec.ports or ():
            if (each.protocol, each.port) in ports:
                continue  # of an earlier holder
            targets = [
                one
                for one in _targets(each.name, version, slices.get(service.key, ()))
                if one.node != here.name or (service.metadata.namespace, one.network, one.address) in places
            ]
            answerers |= {ends[one.node] for one in targets if one.node in ends}
            ports[each.protocol, each.port] = _port(here, service, each.protocol, each.port, targets, ends, version)
    if not held:
        return None
    made = tuple(ports[key] for key in sorted(ports))
    return wanted.IngressAddress(address.spec.address, made, tuple(sorted(answerers)))


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
    service: IngressService,
    protocol: str,
    number: int,
    targets: Iterable[_Target],
    ends: Mapping[str, str],
    version: int,
) -> OpenPort:
    known = [each for each in targets if each.node in ends]
    endpoints = {each: IngressEndpoint(each.node, here.location, each.ready, each.serving) for each in known}
    leads: Leads = LOCAL if service.local else "Cluster"
    chosen = weights(leads, here.name, here.location, list(endpoints.values()))
    able = usable(list(endpoints.values()))
    backends = {
        LocalBackend(each.network, each.address, each.port)
        for each, endpoint in endpoints.items()
        if each.node == here.name and endpoint in able
    }
    transport: Transport = "UDP" if protocol == "UDP" else "SCTP" if protocol == "SCTP" else "TCP"
    nodes = tuple(sorted((ends[node], weight) for node, weight in chosen.items()))
    affinity = service.spec.session_affinity == "ClientIP"
    return OpenPort(transport, number, nodes, tuple(sorted(backends)), service.clients(version), affinity=affinity)


def _on_its_segment(
    here: LocalNode, address: PublicAddress, pool: AddressPool, made: wanted.IngressAddress
) -> tuple[wanted.IngressAddress, str]:
    """Return the address with its segment, if this node is a candidate, and why it must not own it, if so."""
    way = announcement(pool.spec)
    if way == "bgp":
        return made, reasons.NOT_ANNOUNCED
    if not any(each.name == here.name for each in address.spec.candidates):
        return made, ""
    try:
        outside = outside_of(pool.spec.subnet, made.address, here.interfaces)
    except NoOutsideInterface:
        return made, reasons.NO_OUTSIDE_INTERFACE
    made = replace(made, outside=replace(outside, virtual=way == "virtualMAC"))
    if not any(port.nodes for port in made.ports):
        # An address that leads nowhere is not announced: clients get an error instead of silence.
        return made, reasons.NO_ENDPOINTS
    return made, ""
