"""Services with public addresses, reduced to the fields that the datapath needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network, summarize_address_range
from typing import Final, NamedTuple

import msgspec

from tarmac.api.compute.names import LABEL_WORKLOAD_UID
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.names import LABEL_ADDRESS
from tarmac.api.ingress.publicaddress import HolderReference, PublicAddress
from tarmac.api.kubernetes.core.services.validation import SOURCE_RANGES
from tarmac.base import names
from tarmac.decide.reach.partialobjects import Fields, Metadata, ServicePortFacts, SliceFacts

Place = tuple[str, str, str]
"""A namespace, and a Network and an address there of one of its pods."""


class OwnNode(msgspec.Struct, frozen=True):
    """This node's labels, and whether it is cordoned."""

    labels: dict[str, str] = {}
    cordoned: bool = False


SERVICE_NAME: Final = "kubernetes.io/service-name"
"""Label of an EndpointSlice: its Service."""


class _IngressServiceSpec(Fields, frozen=True, gc=False):
    type: str = "ClusterIP"
    ports: list[ServicePortFacts] | None = None
    session_affinity: str = "None"
    external_traffic_policy: str = "Cluster"
    load_balancer_source_ranges: list[str] | None = None
    health_check_node_port: int = 0


class ServiceHealth(NamedTuple):
    """A Service, and the number of its ready endpoints on this node."""

    namespace: str
    name: str
    endpoints: int


class IngressService(Fields, frozen=True, gc=False):
    """A Service of type LoadBalancer or NodePort."""

    metadata: Metadata
    spec: _IngressServiceSpec

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.metadata.namespace}/{self.metadata.name}"

    def holds(self, uid: str) -> bool:
        """Return True if it is the Service of this uid, and wants a public address."""
        return self.metadata.uid == uid and self.spec.type == "LoadBalancer"

    @property
    def local(self) -> bool:
        """True if a node uses only its own endpoints."""
        return self.spec.external_traffic_policy == "Local"

    @property
    def health_port(self) -> int:
        """The port of every node at which its health is asked; 0: none."""
        return self.spec.health_check_node_port

    @property
    def has_node_ports(self) -> bool:
        """True if it, or its health, is at ports of every node."""
        return bool(self.health_port) or any(each.node_port for each in self.spec.ports or ())

    def clients(self, version: int) -> tuple[str, ...] | None:
        """Return the permitted ranges of a family; None if no range is set at all.

        A family that no range names is closed.
        """
        old = (self.metadata.annotations or {}).get(SOURCE_RANGES, "")
        written = self.spec.load_balancer_source_ranges or [each for each in old.split(",") if each.strip()]
        if not written:
            return None
        networks = (_client_range(each.strip()) for each in written)
        return tuple(sorted({str(each) for each in networks if each is not None and each.version == version}))


def _client_range(written: str) -> IPv4Network | IPv6Network | None:
    """Return a permitted range; None if it is not one, so that it permits no client."""
    # An exception here would leave the node without rules for any Service.
    if names.cidr(written):
        return None
    host, _, length = written.partition("/")
    address = names.plain_address(host)
    # An IPv4 address inside an IPv6 one is the source of no packet.
    return ip_network((address, int(length)), strict=False) if (":" in host) == (address.version == 6) else None


_decode = msgspec.json.Decoder(IngressService).decode


def read_service(raw: bytes) -> IngressService | None:
    """Return a Service of type LoadBalancer or NodePort; None for all others."""
    found = _decode(raw)
    return found if found.spec.type in ("LoadBalancer", "NodePort") else None


def pool_ranges(pools: Iterable[AddressPool]) -> tuple[str, ...]:
    """Return the ranges of pools as networks. Ranges that cannot be read are left out: admission has seen them."""
    found: set[str] = set()
    for pool in pools:
        for each in pool.spec.ranges:
            try:
                if each.cidr:
                    found.add(str(ip_network(each.cidr, strict=False)))
                else:
                    between = summarize_address_range(ip_address(each.start), ip_address(each.end))  # type: ignore[type-var]
                    found.update(str(network) for network in between)
            except (ValueError, TypeError):
                continue
    return tuple(sorted(found))


def slice_key(each: SliceFacts) -> str:
    """Return the key of the Service or Workload that a slice is of; empty if it is of neither."""
    labels, namespace = each.metadata.labels or {}, each.metadata.namespace
    if name := labels.get(SERVICE_NAME, ""):
        return f"{namespace}/{name}"
    uid = labels.get(LABEL_WORKLOAD_UID, "")
    return f"{namespace}/workload/{uid}" if uid and LABEL_ADDRESS in labels else ""


def holder_key(holder: HolderReference) -> str:
    """Return the key of a holder, by which its slices are found."""
    return f"{holder.namespace}/{holder.name if holder.kind == 'Service' else f'workload/{holder.uid}'}"


def references(address: PublicAddress) -> Iterator[HolderReference]:
    """Yield the holders of an address that are bound to it, the first in line first."""
    spec = address.spec
    return (each for each in (spec.claim_ref, *spec.shared_by) if each is not None and each.kind and each.uid)
