"""Resolves cluster addresses to backends, from the perspective of one network or from outside all networks.

A Service exists in a network if a backend is on it or outside all networks, and in every network of its own namespace,
where it rejects connections while it has no backend. Ready endpoints take connections; if there are none, endpoints
that still serve while terminating do. Of the ready ones, those with a hint for this node come first, then those for its
zone, by the rules of kube-proxy: only if every endpoint has hints, and one of them is for this node or zone.

Endpoints outside all networks are visible in every network, so a user with many of them would slow all networks:
foreign namespaces together have the same limit as the network's own, small ones first, and a Service beyond it rejects
connections.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, cast

from tarmac.api.networking.names import ANNOTATION_NETWORK
from tarmac.decide.reach.budget import (
    MAX_BACKENDS,
    MAX_REFUSING,
    MAX_REMEMBERING,
    Budget,
    CompilationTooLarge,
)
from tarmac.decide.reach.marks import is_reserved
from tarmac.decide.reach.partialobjects import ServiceFields, ServicePortFacts, SliceEndpoint, SliceFacts
from tarmac.decide.reach.policyrules import ServiceFrontend

LABEL_SERVICE = "kubernetes.io/service-name"

Offered = tuple[ServiceFields, tuple[SliceFacts, ...]]
"""A Service and its reachable slices."""

_Answering = dict[tuple[str, int], SliceEndpoint]
"""Backends by address and port."""


class NodeZone(NamedTuple):
    """This node, and its zone."""

    node: str
    zone: str = ""


class ServiceIndex:
    """Services and their slices, indexed by network."""

    def __init__(self, services: Iterable[ServiceFields], slices: Iterable[SliceFacts]) -> None:
        self._services = {service.key: service for service in services}
        self._slices: dict[str, list[SliceFacts]] = {}
        self._on: dict[str, dict[str, None]] = {}  # network → Services that have an endpoint on it
        self._of: dict[str, list[str]] = {}  # namespace → its Services
        for each in slices:
            service = f"{each.metadata.namespace}/{(each.metadata.labels or {}).get(LABEL_SERVICE, '')}"
            if service in self._services:
                self._slices.setdefault(service, []).append(each)
                if each.endpoints:
                    self._on.setdefault(_network(each), {})[service] = None
        for key, service in self._services.items():
            self._of.setdefault(service.metadata.namespace, []).append(key)

    def offered(self, network: str) -> list[Offered]:
        """Return the Services in a network, sorted by key; those outside all networks if `network` is empty."""
        own = self._of.get(network.partition("/")[0], ())
        keys = {**dict.fromkeys(own), **self._on.get(network, {}), **self._on.get("", {})}
        return [
            (
                self._services[key],
                tuple(each for each in self._slices.get(key, ()) if _network(each) in ("", network)),
            )
            for key in sorted(keys)
        ]


@dataclass(slots=True)
class ServiceFrontends:
    """The Service ports of a network for one node. Unchanged Services are not compiled again."""

    network: str
    here: NodeZone
    refusals: Sequence[str] = ()
    ports: tuple[ServiceFrontend, ...] = ()
    _known: Mapping[str, tuple[Offered, list[ServiceFrontend]]] | None = None

    def update(self, offered: Sequence[Offered]) -> None:
        """Apply the current Services."""
        before = self._known or {}
        found: dict[str, tuple[Offered, list[ServiceFrontend]]] = {}
        for each in offered:
            key = each[0].key
            known = before.get(key)
            found[key] = known if known is not None and known[0] == each else (each, _ports_of(each, self.here))
        self._known = found
        bounded, self.refusals = _bounded(self.network, list(found.values()))
        self.ports = tuple(sorted(bounded, key=lambda port: (port.address, port.protocol, port.port)))


def _bounded(
    network: str, found: Sequence[tuple[Offered, list[ServiceFrontend]]]
) -> tuple[list[ServiceFrontend], Sequence[str]]:
    """Return the ports within their namespaces' limits; ports beyond them reject connections."""
    own = network.partition("/")[0]
    sizes: dict[str, int] = {}
    for (service, _), ports in found:
        namespace = service.metadata.namespace
        sizes[namespace] = sizes.get(namespace, 0) + sum(1 + len(port.backends) for port in ports)
    budgets = {True: _Budgets(), False: _Budgets()}
    bounded: list[ServiceFrontend] = []
    refusing: list[ServiceFrontend] = []
    refusals: list[str] = []
    for (service, _), ports in sorted(found, key=lambda each: (sizes[each[0][0].metadata.namespace], each[0][0].key)):
        try:
            bounded += budgets[service.metadata.namespace == own].within(ports)
        except CompilationTooLarge as refusal:
            refusals.append(f"Service {service.key}: {refusal}")
            refusing += [replace(port, backends=(), affinity=0) for port in ports[: MAX_REFUSING - len(refusing)]]
    return bounded + refusing, refusals


class _Budgets:
    def __init__(self) -> None:
        self._backends = Budget(MAX_BACKENDS, "backends")
        self._remembering = Budget(MAX_REMEMBERING, "backends that remember their clients")

    def within(self, ports: Sequence[ServiceFrontend]) -> Iterable[ServiceFrontend]:
        """Charge the ports of one Service; drop affinity if its limit is exceeded. Raises CompilationTooLarge."""
        self._backends.spend(sum(1 + len(port.backends) for port in ports))
        try:
            self._remembering.spend(sum(len(port.backends) for port in ports if port.affinity))
        except CompilationTooLarge:
            return [replace(port, affinity=0) for port in ports]
        return ports


def _ports_of(offered: Offered, here: NodeZone) -> list[ServiceFrontend]:
    """Return the ports of one Service; all of them reject connections if it has too many backends."""
    try:
        return _ports(*offered, here)
    except CompilationTooLarge:
        return _ports(offered[0], (), here)


def _ports(service: ServiceFields, slices: Sequence[SliceFacts], here: NodeZone) -> list[ServiceFrontend]:
    return [
        ServiceFrontend(
            address, cast("Literal['TCP', 'UDP', 'SCTP']", port.protocol), port.port, backends, service.affinity
        )
        for family, six in (("IPv4", False), ("IPv6", True))  # slices of type FQDN are ignored
        for addresses in ([each for each in service.addresses if (":" in each) == six],)
        if addresses
        for port, backends in _backends(service, here, [each for each in slices if each.address_type == family])
        for address in addresses
    ]


def _backends(
    service: ServiceFields, here: NodeZone, slices: Sequence[SliceFacts]
) -> Iterator[tuple[ServicePortFacts, tuple[tuple[str, int], ...]]]:
    """Yield the backends of each port. Slices map port names to numbers. Raises CompilationTooLarge."""
    ready: dict[tuple[str, str], _Answering] = {}
    leaving: dict[tuple[str, str], _Answering] = {}
    places = Budget(MAX_BACKENDS, "backends")  # ports times endpoints: check the limit before building the entries
    asked = {(port.name, port.protocol) for port in service.spec.ports or ()}
    for each in slices:
        takes, leaves = _answering(service, here.node, each)
        for port in each.ports or ():
            name = port.name, port.protocol
            if port.port and name in asked:
                places.spend(len(takes) + len(leaves))
                ready.setdefault(name, {}).update(((one.addresses[0], port.port), one) for one in takes)
                leaving.setdefault(name, {}).update(((one.addresses[0], port.port), one) for one in leaves)
    for port in service.spec.ports or ():
        name = port.name, port.protocol
        found = ready.get(name) or {}
        near = found if service.local else _nearest(found, here)
        yield port, tuple(sorted(near or leaving.get(name) or ()))


def _nearest(found: _Answering, here: NodeZone) -> _Answering:
    """Return the backends with hints for this node, else those for its zone, else all."""
    if all(one.nodes for one in found.values()) and (
        near := {place: one for place, one in found.items() if here.node in one.nodes}
    ):
        return near
    if here.zone and all(one.zones for one in found.values()):
        return {place: one for place, one in found.items() if here.zone in one.zones} or found
    return found


def _answering(
    service: ServiceFields, node: str, slice_: SliceFacts
) -> tuple[list[SliceEndpoint], list[SliceEndpoint]]:
    """Return the ready endpoints of a slice that this node may use, and those still serving while terminating."""
    near = [
        each
        for each in slice_.endpoints or ()
        if _is_near(service, each, node) and (_network(slice_) or not is_reserved(each.addresses[0]))
    ]
    return [each for each in near if each.ready], [each for each in near if each.leaving]


def _is_near(service: ServiceFields, endpoint: SliceEndpoint, node: str) -> bool:
    return not service.local or endpoint.node_name == node


def _network(each: SliceFacts) -> str:
    return (each.metadata.annotations or {}).get(ANNOTATION_NETWORK, "")
