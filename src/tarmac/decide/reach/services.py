"""Which cluster addresses lead where, as seen from one network, or from outside all of them.

A Service is there in a network when a backend is on it or outside all networks, and in every network of its own
namespace, where it refuses while it has none. Endpoints that are ready take connections; when there are none, those
that still serve on their way out do. Of those that are ready, the ones meant for this node come first, then those for
its zone, by the rules of kube-proxy: only where every one says whom it is for, and one of them is for here.

Endpoints outside all networks are seen in every network, so whoever writes many of them would cost everybody: foreign
namespaces together have the same bound as the network's own has, the small ones first, and a Service beyond it refuses.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, cast

from tarmac.api.networking.names import ANNOTATION_NETWORK
from tarmac.decide.reach.allowances import ServicePort
from tarmac.decide.reach.budget import (
    MOST_BACKENDS,
    MOST_REFUSING,
    MOST_REMEMBERING,
    Budget,
    CompilationTooLarge,
)
from tarmac.decide.reach.facts import Backend, ServiceFacts, ServicePortFacts, SliceFacts
from tarmac.decide.reach.marks import is_reserved

LABEL_SERVICE = "kubernetes.io/service-name"

Offered = tuple[ServiceFacts, tuple[SliceFacts, ...]]
"""A Service, and those of its slices that can be reached."""

_Answering = dict[tuple[str, int], Backend]
"""Who answers, by address and port."""


class Here(NamedTuple):
    """This node, and its zone."""

    node: str
    zone: str = ""


class ServiceIndex:
    """Services and their slices, found by the network from which they are asked about."""

    def __init__(self, services: Iterable[ServiceFacts], slices: Iterable[SliceFacts]) -> None:
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
        """Everything that there is in a network, in order; outside all of them when it is empty."""
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
class ServicePorts:
    """The cluster addresses of a network, for one node. What did not change is not worked out again."""

    network: str
    here: Here
    refusals: Sequence[str] = ()
    ports: tuple[ServicePort, ...] = ()
    _known: Mapping[str, tuple[Offered, list[ServicePort]]] | None = None

    def update(self, offered: Sequence[Offered]) -> None:
        """Follow what there is now."""
        before = self._known or {}
        found: dict[str, tuple[Offered, list[ServicePort]]] = {}
        for each in offered:
            key = each[0].key
            known = before.get(key)
            found[key] = known if known is not None and known[0] == each else (each, _ports_of(each, self.here))
        self._known = found
        bounded, self.refusals = _bounded(self.network, list(found.values()))
        self.ports = tuple(sorted(bounded, key=lambda port: (port.address, port.protocol, port.port)))


def _bounded(
    network: str, found: Sequence[tuple[Offered, list[ServicePort]]]
) -> tuple[list[ServicePort], Sequence[str]]:
    """Ports within their namespaces' bounds; those beyond refuse."""
    own = network.partition("/")[0]
    sizes: dict[str, int] = {}
    for (service, _), ports in found:
        namespace = service.metadata.namespace
        sizes[namespace] = sizes.get(namespace, 0) + sum(1 + len(port.backends) for port in ports)
    budgets = {True: _Budgets(), False: _Budgets()}
    bounded: list[ServicePort] = []
    refusing: list[ServicePort] = []
    refusals: list[str] = []
    for (service, _), ports in sorted(found, key=lambda each: (sizes[each[0][0].metadata.namespace], each[0][0].key)):
        try:
            bounded += budgets[service.metadata.namespace == own].within(ports)
        except CompilationTooLarge as refusal:
            refusals.append(f"Service {service.key}: {refusal}")
            refusing += [replace(port, backends=(), affinity=0) for port in ports[: MOST_REFUSING - len(refusing)]]
    return bounded + refusing, refusals


class _Budgets:
    def __init__(self) -> None:
        self._backends = Budget(MOST_BACKENDS, "backends")
        self._remembering = Budget(MOST_REMEMBERING, "backends that remember their clients")

    def within(self, ports: Sequence[ServicePort]) -> Iterable[ServicePort]:
        """The ports of one Service; without memory, when there is no room for that. Raises TooLarge."""
        self._backends.spend(sum(1 + len(port.backends) for port in ports))
        try:
            self._remembering.spend(sum(len(port.backends) for port in ports if port.affinity))
        except CompilationTooLarge:
            return [replace(port, affinity=0) for port in ports]
        return ports


def _ports_of(offered: Offered, here: Here) -> list[ServicePort]:
    """The ports of one Service; all of them refuse when there is too much behind them."""
    try:
        return _ports(*offered, here)
    except CompilationTooLarge:
        return _ports(offered[0], (), here)


def _ports(service: ServiceFacts, slices: Sequence[SliceFacts], here: Here) -> list[ServicePort]:
    return [
        ServicePort(
            address, cast("Literal['TCP', 'UDP', 'SCTP']", port.protocol), port.port, backends, service.affinity
        )
        for family, six in (("IPv4", False), ("IPv6", True))  # a slice of names leads nowhere
        for addresses in ([each for each in service.addresses if (":" in each) == six],)
        if addresses
        for port, backends in _backends(service, here, [each for each in slices if each.address_type == family])
        for address in addresses
    ]


def _backends(
    service: ServiceFacts, here: Here, slices: Sequence[SliceFacts]
) -> Iterator[tuple[ServicePortFacts, tuple[tuple[str, int], ...]]]:
    """Who answers at each port. Slices say by the name of a port where they answer it. Raises TooLarge."""
    ready: dict[tuple[str, str], _Answering] = {}
    leaving: dict[tuple[str, str], _Answering] = {}
    places = Budget(MOST_BACKENDS, "backends")  # ports times endpoints, so what is too much must not be made first
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


def _nearest(found: _Answering, here: Here) -> _Answering:
    """Those meant for this node, else those for its zone, else all."""
    if all(one.nodes for one in found.values()) and (
        near := {place: one for place, one in found.items() if here.node in one.nodes}
    ):
        return near
    if here.zone and all(one.zones for one in found.values()):
        return {place: one for place, one in found.items() if here.zone in one.zones} or found
    return found


def _answering(service: ServiceFacts, node: str, slice_: SliceFacts) -> tuple[list[Backend], list[Backend]]:
    """Of those in a slice that may answer here, who takes connections, and who still serves on the way out."""
    near = [
        each
        for each in slice_.endpoints or ()
        if _is_near(service, each, node) and (_network(slice_) or not is_reserved(each.addresses[0]))
    ]
    return [each for each in near if each.ready], [each for each in near if each.leaving]


def _is_near(service: ServiceFacts, endpoint: Backend, node: str) -> bool:
    return not service.local or endpoint.node_name == node


def _network(each: SliceFacts) -> str:
    return (each.metadata.annotations or {}).get(ANNOTATION_NETWORK, "")
