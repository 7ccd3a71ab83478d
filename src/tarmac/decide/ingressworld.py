"""Pools, addresses, nodes and slices of a snapshot, for explanations and plans of public addresses."""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.schema import JsonObject
from tarmac.decide.egress.reading import node_addresses, node_view
from tarmac.decide.ingress.addressclaims import IngressClaim, service_claim
from tarmac.decide.ingress.binding import PoolBook
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.pooled.overlap import RangeOwner
from tarmac.decide.pooled.permissions import allows_namespace
from tarmac.decide.snapshot.egressobjects import NAMESPACES, SERVICES, SLICES, SOURCE_IP_CLASSES
from tarmac.decide.snapshot.ingressobjects import ADDRESS_POOLS, PUBLIC_ADDRESSES
from tarmac.decide.snapshot.snapshot import NODES, Snapshot

_SERVICE_NAME = "kubernetes.io/service-name"


def pool_book(snapshot: Snapshot, more: Iterable[IngressClaim] = ()) -> PoolBook:
    """Return the pools with their addresses. Claims are those of Services, and `more`.

    Workloads use other pools than Services, so an explanation of a Service needs none.
    """
    namespaces = {each["metadata"]["name"]: each["metadata"] for each in NAMESPACES.all(snapshot)}
    claims = [*map(service_claim, SERVICES.all(snapshot)), *more]

    def allowed(pool: AddressPool, namespace: str) -> bool:
        known = namespaces.get(namespace)
        return known is not None and allows_namespace(
            pool.spec.allowed_namespaces, namespace, known.get("labels") or {}
        )

    return PoolBook(
        ADDRESS_POOLS.all(snapshot),
        PUBLIC_ADDRESSES.all(snapshot),
        {claim.uid: claim for claim in claims if claim is not None},
        allowed=allowed,
        interfaces={each for node in NODES.all(snapshot) for each in node_addresses(node, node_view(node))},
        uid_of=lambda name: namespaces.get(name, {}).get("uid", ""),
        others=class_owners(snapshot),
    )


def class_owners(snapshot: Snapshot) -> list[RangeOwner]:
    """Return the SourceIPClasses, whose ranges no pool may offer."""
    return [
        RangeOwner(
            (each.metadata.creation_timestamp or "", each.metadata.name),
            f"SourceIPClass {each.metadata.name}",
            each.spec.ranges,
        )
        for each in SOURCE_IP_CLASSES.all(snapshot)
    ]


def nodes_of(snapshot: Snapshot) -> dict[str, NodeView]:
    """Return every node by name."""
    return {each["metadata"]["name"]: node_view(each) for each in NODES.all(snapshot)}


def slices_of(snapshot: Snapshot, namespace: str, service: str) -> list[JsonObject]:
    """Return the EndpointSlices of a Service."""
    every = SLICES.all(snapshot, namespace)
    return [each for each in every if (each["metadata"].get("labels") or {}).get(_SERVICE_NAME) == service]
