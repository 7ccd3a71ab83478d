"""Inputs for resolving an ExternalService: small immutable views, and the `EgressLookup` that looks them up.

Controllers build them from caches, plans from a snapshot, tests from literals.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.names import Address
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.decide.pooled.nodeview import NodeView


@dataclass(frozen=True, slots=True)
class EgressPod:
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
    """A Service and its endpoints."""

    namespace: str
    name: str
    ports: tuple[PortView, ...] = ()
    endpoints: tuple[EndpointView, ...] = ()
    client_affinity: bool = False


class EgressLookup(Protocol):
    """Lookup of cluster objects. Keys are namespace/name."""

    def service(self, key: str) -> ServiceView | None:
        """Return a Service."""
        ...

    def allowed_from(self, key: str) -> str | None:
        """Return the namespaces that a Service grants its use to, as annotated; None if it does not exist."""
        ...

    def pod(self, key: str) -> EgressPod | None:
        """Return a pod that has not ended."""
        ...

    def node(self, name: str) -> NodeView | None:
        """Return a node."""
        ...

    def claim(self, key: str) -> SourceIPClaim | None:
        """Return a claim."""
        ...

    def claim_holding(self, namespace: str, address: str) -> SourceIPClaim | None:
        """Return the bound claim of a namespace that holds an address."""
        ...

    def source_ip(self, name: str) -> SourceIP | None:
        """Return a SourceIP by name."""
        ...

    def address_class(self, name: str) -> SourceIPClass | None:
        """Return a SourceIPClass."""
        ...

    def authorized(self, class_name: str, namespace: str) -> bool:
        """Return True if a namespace may use a class."""
        ...

    def has_location(self, name: str) -> bool:
        """Return True if a Location exists."""
        ...

    def users(self, source_ip: str) -> Sequence[ExternalService]:
        """Return the ExternalServices that name an address or its claim, oldest first."""
        ...

    def candidates(self, source_ip: str) -> Sequence[NodeView]:
        """Return the candidate nodes of an address in order of preference."""
        ...

    def inside(self, target: Address, networks: Sequence[str], namespace: str) -> str | None:
        """Name the part of the platform that holds an address: nodes, classes, Networks (listed or of a namespace)."""
        ...


def age(service: ExternalService) -> tuple[str, str, str]:
    """Return the sort key that puts the oldest first."""
    own = service.metadata
    return own.creation_timestamp or "", own.namespace, own.name
