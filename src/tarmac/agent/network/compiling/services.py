"""Which cluster addresses lead where, as seen from one network, or from outside all of them.

A Service is there in a network when a backend is on it or outside all networks, and in every network of its own
namespace, where it refuses while it has none. Endpoints that are ready take connections; when there are none, those
that still serve on their way out do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, cast

from tarmac.agent.network.compiling.facts import Endpoint, Service, ServicePortFacts, Slice
from tarmac.api.networking.names import ANNOTATION_NETWORK
from tarmac.datapath.interface import ServicePort
from tarmac.datapath.marks import is_reserved

LABEL_SERVICE = "kubernetes.io/service-name"


def by_service(slices: Sequence[Slice]) -> dict[str, list[Slice]]:
    """Slices by the key of their Service."""
    found: dict[str, list[Slice]] = {}
    for each in slices:
        name = (each.metadata.labels or {}).get(LABEL_SERVICE)
        if name:
            found.setdefault(f"{each.metadata.namespace}/{name}", []).append(each)
    return found


def service_ports(
    network: str, node: str, services: Sequence[Service], slices: Mapping[str, Sequence[Slice]]
) -> tuple[ServicePort, ...]:
    """The cluster addresses of a network, in an order of their own; those outside all of them when it is empty."""
    found: list[ServicePort] = []
    for service in services:
        reachable = [each for each in slices.get(service.key, ()) if _network(each) in ("", network)]
        own = service.metadata.namespace == network.partition("/")[0]
        if own or any(each.endpoints for each in reachable):
            found += _ports(service, node, reachable)
    return tuple(sorted(found, key=lambda port: (port.address, port.protocol, port.port)))


def _ports(service: Service, node: str, slices: Sequence[Slice]) -> list[ServicePort]:
    return [
        ServicePort(
            address,
            cast("Literal['TCP', 'UDP', 'SCTP']", port.protocol),
            port.port,
            _backends(
                service, port, node, [each for each in slices if (":" in address) == (each.address_type == "IPv6")]
            ),
            service.affinity,
        )
        for address in service.addresses
        for port in service.spec.ports or ()
    ]


def _backends(
    service: Service, port: ServicePortFacts, node: str, slices: Sequence[Slice]
) -> tuple[tuple[str, int], ...]:
    ready: set[tuple[str, int]] = set()
    leaving: set[tuple[str, int]] = set()
    for each in slices:
        numbers = [
            own.port for own in each.ports or () if own.name == port.name and own.protocol == port.protocol and own.port
        ]
        for endpoint in each.endpoints or ():
            if _is_near(service, endpoint, node) and (_network(each) or not is_reserved(endpoint.addresses[0])):
                places = {(endpoint.addresses[0], number) for number in numbers}
                ready |= places if endpoint.ready else set()
                leaving |= places if endpoint.leaving else set()
    return tuple(sorted(ready or leaving))


def _is_near(service: Service, endpoint: Endpoint, node: str) -> bool:
    return service.spec.internal_traffic_policy != "Local" or endpoint.node_name == node


def _network(each: Slice) -> str:
    return (each.metadata.annotations or {}).get(ANNOTATION_NETWORK, "")
