"""Services and Workloads as claims on public addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from ipaddress import ip_address

from tarmac.api.compute.names import ANNOTATION_ANYCAST
from tarmac.api.compute.workload import Workload
from tarmac.api.egress.names import Address
from tarmac.api.ingress.addresspool import Scope
from tarmac.api.ingress.names import ANNOTATION_ADDRESSES, ANNOTATION_POOL, ANNOTATION_SHARED, LOAD_BALANCER_CLASS
from tarmac.api.ingress.publicaddress import HolderKind, HolderReference
from tarmac.api.schema import JsonObject
from tarmac.api.shared import IPFamily
from tarmac.decide.pooled.pool import AddressWish

PortKey = tuple[str, int]
"""A protocol and a port."""


@dataclass(frozen=True, slots=True)
class IngressClaim:
    """A Service or Workload that wants addresses. `pool` and `shared` are annotations, empty if they are not set."""

    kind: HolderKind
    namespace: str
    name: str
    uid: str
    created: str = ""
    families: tuple[IPFamily, ...] = ("IPv4",)
    requires_all: bool = True
    pool: str = ""
    asked: Mapping[int, Address] = field(default_factory=dict[int, Address])
    shared: str = ""
    policy: str = "Cluster"
    ports: frozenset[PortKey] = frozenset()

    @property
    def key(self) -> str:
        """Kind, namespace and name."""
        return holder_key(self.kind, self.namespace, self.name)

    @property
    def scope(self) -> Scope:
        """The scope of the pools that it may use."""
        return "Location" if self.kind == "Service" else "Anycast"

    def wish(self, asked: Mapping[int, Address] | None = None) -> AddressWish:
        """Return the claim in the terms of pools."""
        return AddressWish(
            self.kind,
            self.namespace,
            self.name,
            self.uid,
            self.families,
            self.asked if asked is None else asked,
            requires_all=self.requires_all,
        )


def holder_key(kind: str, namespace: str, name: str) -> str:
    """Return the key of a Service or Workload among both kinds."""
    return f"{kind}/{namespace}/{name}"


def key_of(reference: HolderReference) -> str:
    """Return the key of the Service or Workload that holds an address."""
    return holder_key(reference.kind or "", reference.namespace, reference.name)


def service_claim(service: JsonObject) -> IngressClaim | None:
    """Return the claim of a Service; None unless it is of type LoadBalancer with our class, and stays."""
    metadata, spec = service["metadata"], service.get("spec") or {}
    ours = spec.get("type") == "LoadBalancer" and spec.get("loadBalancerClass") in (None, LOAD_BALANCER_CLASS)
    if not ours or metadata.get("deletionTimestamp"):
        return None
    annotations = metadata.get("annotations") or {}
    written = annotations.get(ANNOTATION_ADDRESSES) or spec.get("loadBalancerIP") or ""
    return IngressClaim(
        "Service",
        metadata["namespace"],
        metadata["name"],
        metadata["uid"],
        metadata.get("creationTimestamp") or "",
        tuple(spec.get("ipFamilies") or ("IPv4",)),
        spec.get("ipFamilyPolicy") == "RequireDualStack",
        annotations.get(ANNOTATION_POOL, ""),
        requested(written),
        annotations.get(ANNOTATION_SHARED, ""),
        spec.get("externalTrafficPolicy") or "Cluster",
        frozenset((each.get("protocol") or "TCP", each["port"]) for each in spec.get("ports") or ()),
    )


def workload_claim(workload: Workload, families: Sequence[IPFamily]) -> IngressClaim | None:
    """Return the claim of a Workload; None unless its annotation asks for anycast, and it stays.

    `families` are those of the Network of its first interface.
    """
    own = workload.metadata
    if own.annotations.get(ANNOTATION_ANYCAST) != "true" or own.deletion_timestamp is not None:
        return None
    return IngressClaim(
        "Workload",
        own.namespace,
        own.name,
        own.uid,
        own.creation_timestamp or "",
        tuple(families),
        requires_all=False,
        pool=own.annotations.get(ANNOTATION_POOL, ""),
        asked=requested(own.annotations.get(ANNOTATION_ADDRESSES, "")),
        ports=frozenset(declared_ports(workload)),
    )


def declared_ports(workload: Workload) -> dict[PortKey, str]:
    """Return the ports that the template declares, by protocol and number, with their names."""
    runtime = workload.spec.template.spec.runtime
    containers = runtime.sandbox.containers if runtime.sandbox is not None else []
    machine = runtime.virtual_machine.ports if runtime.virtual_machine is not None else []
    ports = [*(port for container in containers for port in container.ports), *machine]
    return {(port.protocol, port.port): port.name for port in reversed(ports)}


def requested(written: str) -> dict[int, Address]:
    """Return the requested addresses by IP version. Unreadable ones, which admission rejects, are left out."""
    found: dict[int, Address] = {}
    for each in written.split(",")[:2]:
        with suppress(ValueError):
            address = ip_address(each.strip())
            found.setdefault(address.version, address)
    return found
