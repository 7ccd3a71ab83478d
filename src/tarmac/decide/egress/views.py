"""What is looked at when an ExternalService is worked out: small values, and a world that finds them.

Controllers make them of their caches, plans of a snapshot, tests of nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tarmac.api.submariner.externalservice import ExternalService
from tarmac.api.submariner.names import Address
from tarmac.api.submariner.nodefacts import NodeFacts
from tarmac.api.submariner.sourceip import SourceIP, SourceIPClaim, SourceIPClass


@dataclass(frozen=True, slots=True)
class NodeView:
    """A node. `facts` are None where no agent takes part in external services."""

    name: str
    address: str = ""
    city: str = ""
    location: str = ""
    ready: bool = True
    cordoned: bool = False
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    facts: NodeFacts | None = None


@dataclass(frozen=True, slots=True)
class PodView:
    """A pod that has not ended. `addresses` by the Network they are on."""

    uid: str
    node: str
    host_network: bool = False
    addresses: Mapping[str, Sequence[str]] = field(default_factory=dict[str, Sequence[str]])


@dataclass(frozen=True, slots=True)
class PortView:
    """A port of a Service or of an endpoint, by name."""

    name: str
    protocol: str
    number: int


@dataclass(frozen=True, slots=True)
class EndpointView:
    """An entry of an EndpointSlice. `pod` is the name in its targetRef; empty when that names no Pod."""

    address: str
    pod: str
    uid: str
    network: str
    ready: bool = True
    serving: bool = True
    ports: tuple[PortView, ...] = ()


@dataclass(frozen=True, slots=True)
class ServiceView:
    """A Service and what is behind it."""

    namespace: str
    name: str
    ports: tuple[PortView, ...] = ()
    endpoints: tuple[EndpointView, ...] = ()
    allowed_from: str = ""
    client_affinity: bool = False


class World(Protocol):
    """Everything there is. Keys are namespace/name."""

    def service(self, key: str) -> ServiceView | None:
        """A Service."""
        ...

    def pod(self, key: str) -> PodView | None:
        """A pod that has not ended."""
        ...

    def node(self, name: str) -> NodeView | None:
        """A node."""
        ...

    def claim(self, key: str) -> SourceIPClaim | None:
        """A claim."""
        ...

    def claim_holding(self, namespace: str, address: str) -> SourceIPClaim | None:
        """The bound claim of a namespace that holds an address."""
        ...

    def source_ip(self, name: str) -> SourceIP | None:
        """An address by the name of its object."""
        ...

    def address_class(self, name: str) -> SourceIPClass | None:
        """A class."""
        ...

    def authorized(self, class_name: str, namespace: str) -> bool:
        """Whether a class is for a namespace."""
        ...

    def has_location(self, name: str) -> bool:
        """Whether a Location exists."""
        ...

    def users(self, source_ip: str) -> Sequence[ExternalService]:
        """The ExternalServices that name an address or its claim, oldest first."""
        ...

    def candidates(self, source_ip: str) -> Sequence[NodeView]:
        """The nodes that may carry an address, the first in line first."""
        ...

    def inside(self, target: Address, networks: Sequence[str], namespaces: Sequence[str]) -> str | None:
        """Which part of the platform an address is in: nodes, classes, these Networks and those of these namespaces."""
        ...


def age(service: ExternalService) -> tuple[str, str, str]:
    """By which the oldest comes first."""
    own = service.metadata
    return own.creation_timestamp or "", own.namespace, own.name
