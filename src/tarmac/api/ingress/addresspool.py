"""AddressPool: addresses at which clients outside reach Services and Workloads."""

from __future__ import annotations

from typing import Annotated, Literal

from tarmac.api.declare import Field, Struct
from tarmac.api.egress.sourceip import (
    MAX_RANGES,
    AddressRange,
    AllowedNamespaces,
    ClassQuota,
    ClassSubnet,
    ReclaimPolicy,
)
from tarmac.api.shared import Conditions, Kind, LabelSelector, ObservedGeneration, counted

PoolAnnouncement = Literal["gratuitous", "virtualMAC", "bgp"]
Scope = Literal["Location", "Anycast"]


class PoolLimits(Struct):
    """Limits of the traffic to each address."""

    new_per_second: Annotated[int | None, Field("Most new connections in a second.", minimum=1)] = None
    connections: Annotated[int | None, Field("Most connections at a time.", minimum=1)] = None


class PoolAttributes(Struct):
    """Attributes of the routes that announce the addresses by BGP."""

    communities: Annotated[
        list[str],
        Field("Communities, each as ASN:VALUE with both parts at most 65535.", unique=True, max_items=64),
    ] = []
    large_communities: Annotated[
        list[str],
        Field(
            "Large communities, each as ASN:VALUE:VALUE with all parts at most 4294967295.", unique=True, max_items=64
        ),
    ] = []
    local_preference: Annotated[
        int | None,
        Field("Preference among routers of the same ASN.", minimum=0, maximum=4294967295, format="int64"),
    ] = None


class AddressPoolSpec(Struct):
    """Addresses, and the rules for handing them out."""

    ranges: Annotated[
        list[AddressRange],
        Field(
            "The addresses. Ranges of different AddressPools and SourceIPClasses do not overlap.",
            min_items=1,
            max_items=MAX_RANGES,
        ),
    ]
    scope: Annotated[
        Scope,
        Field(
            "Location: for Services, announced at the Locations of the pool. Anycast: for Workloads with the "
            "annotation compute.datumapis.com/enable-anycast, announced in every city that has a ready instance.",
            stored=True,
        ),
    ] = "Location"
    locations: Annotated[
        list[str], Field("Locations where the addresses are routable; by default all.", unique=True, max_items=1024)
    ] = []
    gateway_selector: Annotated[
        LabelSelector | None,
        Field("Nodes that may announce the addresses; by default those of submariner.io/gateway=true."),
    ] = None
    announce: Annotated[
        PoolAnnouncement | None,
        Field(
            "How the network outside learns where an address is: by gratuitous ARP and neighbour advertisements "
            "(gratuitous, the default of scope Location), by an interface with a hardware address of its own "
            "(virtualMAC), or by routes to the BGPPeers (bgp, the only value of scope Anycast)."
        ),
    ] = None
    subnet: Annotated[ClassSubnet | None, Field("The segment that the addresses belong to.")] = None
    allowed_namespaces: Annotated[
        AllowedNamespaces | None, Field("Namespaces that may use the pool; none by default.")
    ] = None
    quota: Annotated[ClassQuota | None, Field("How many addresses may be in use.")] = None
    auto_assign: Annotated[
        bool | None,
        Field("False: addresses are given only to Services and Workloads that name the pool. By default true."),
    ] = None
    priority: Annotated[
        int,
        Field(
            "Among the pools that a Service or Workload may use, the one with the highest priority comes first.",
            minimum=-1_000_000,
            maximum=1_000_000,
        ),
    ] = 0
    hold_down: Annotated[
        str, Field("Quarantine after release, since outsiders still trust the address.", stored=True)
    ] = "24h"
    reclaim_policy: ReclaimPolicy = "Delete"
    sharing: Annotated[
        Literal["None", "Namespace"],
        Field(
            "Namespace: Services of one namespace with the same annotation networking.datumapis.com/shared-address "
            "share an address. None: each has its own.",
            stored=True,
        ),
    ] = "Namespace"
    limits: Annotated[PoolLimits | None, Field("Limits of the traffic to each address.")] = None
    bgp: Annotated[PoolAttributes | None, Field("Attributes of the routes, where announce is bgp.")] = None


class PoolSummary(Struct):
    """The pool in a few numbers."""

    bound: Annotated[int, Field("Addresses in use.", minimum=0)] = counted()
    available: Annotated[int, Field("Addresses that are free.", minimum=0, format="int64")] = counted()
    resting: Annotated[int, Field("Addresses in quarantine after release.", minimum=0)] = counted()


class AddressPoolStatus(Struct):
    """The pool as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    summary: Annotated[PoolSummary | None, Field("The pool in a few numbers.")] = None


class AddressPool(Kind):
    """Addresses at which clients outside reach Services and Workloads, and the rules for handing them out."""

    spec: Annotated[AddressPoolSpec, Field("The addresses and their rules.")]
    status: Annotated[AddressPoolStatus | None, Field("The pool as it is.")] = None


def announcement(spec: AddressPoolSpec) -> PoolAnnouncement:
    """Return the way in which a pool's addresses are announced, with its default."""
    return spec.announce or ("bgp" if spec.scope == "Anycast" else "gratuitous")
