"""SourceIPClass, SourceIP and SourceIPClaim: source addresses, provisioned in the way of volumes."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tarmac.api.declare import Field, Struct
from tarmac.api.shared import (
    Conditions,
    IPFamily,
    Kind,
    LabelSelector,
    ObservedGeneration,
    Time,
    counted,
)
from tarmac.base.quantity import Quantity

ReclaimPolicy = Annotated[
    Literal["Delete", "Retain"],
    Field("Delete: the address is free again after its quarantine. Retain: a manager frees it.", stored=True),
]

Announce = Annotated[
    Literal["virtualMAC", "gratuitous", "routed"], Field("How the segment learns where an address is.", stored=True)
]
MAX_RANGES = 64  # of one class


class AddressRange(Struct):
    """Addresses: a CIDR, or the first and the last."""

    cidr: Annotated[str, Field("The range, instead of start and end.")] = ""
    start: Annotated[str, Field("First address.")] = ""
    end: Annotated[str, Field("Last address.")] = ""


class ClassLocation(Struct):
    """A place where the addresses are routable."""

    name: Annotated[str, Field("Name of the Location.")]
    gateway_selector: Annotated[
        LabelSelector | None,
        Field("Nodes that may carry the addresses; by default those of submariner.io/gateway=true."),
    ] = None
    max_per_node: Annotated[int | None, Field("Most addresses on one node.", minimum=1)] = None


class ClassSubnet(Struct):
    """The network segment that the addresses belong to."""

    gateway: Annotated[str, Field("Router of the segment; never handed out.")] = ""
    prefix_length: Annotated[int | None, Field("Size of the segment.", minimum=1, maximum=128)] = None
    interface: Annotated[str, Field("Interface of the gateway nodes; by default found by itself.")] = ""


class AllowedNamespaces(Struct):
    """Namespaces that may use the class, by name or by label; by default none."""

    names: Annotated[list[str], Field("Names.", unique=True)] = []
    selector: Annotated[LabelSelector | None, Field("Labels of namespaces.")] = None


class Inbound(Struct):
    """Connections from a target to the Service."""

    policy: Annotated[Literal["Deny", "FromTarget"], Field("None, or the target.", stored=True)] = "Deny"
    ports: Annotated[list[int], Field("Only to these ports; by default all.", unique=True)] = []


class QuotaOverride(Struct):
    """A quota of one namespace."""

    namespace: Annotated[str, Field("The namespace.")]
    addresses: Annotated[int, Field("Most addresses.", minimum=0)]


class ClassQuota(Struct):
    """Limits of the addresses in use."""

    total: Annotated[int | None, Field("In all.", minimum=0)] = None
    per_namespace: Annotated[int | None, Field("In each namespace.", minimum=0)] = None
    overrides: Annotated[list[QuotaOverride], Field("Other numbers for some namespaces.", key="namespace")] = []


class AddressLimits(Struct):
    """Limits of the traffic of one address."""

    egress_bandwidth: Annotated[Quantity | None, Field("Bits per second out.")] = None
    ingress_bandwidth: Annotated[Quantity | None, Field("Bits per second in.")] = None
    connections: Annotated[int | None, Field("Most connections at a time.", minimum=1)] = None


class SourceIPClassSpec(Struct):
    """Addresses, and the rules for handing them out."""

    ranges: Annotated[
        list[AddressRange],
        Field("The addresses. Ranges of different classes do not overlap.", min_items=1, max_items=MAX_RANGES),
    ]
    locations: Annotated[
        list[ClassLocation], Field("Where the addresses are routable; by default everywhere.", key="name")
    ] = []
    subnet: Annotated[ClassSubnet | None, Field("The segment that the addresses belong to.")] = None
    announce: Announce = "gratuitous"
    allowed_namespaces: Annotated[
        AllowedNamespaces | None, Field("Namespaces that may use the class; none by default.")
    ] = None
    allowed_targets: Annotated[
        list[str], Field("Ranges that an ExternalService may name; never the platform's own.", unique=True)
    ] = []
    inbound: Annotated[Inbound | None, Field("Whether a target may connect back.")] = None
    sharing: Annotated[
        Literal["Exclusive", "Namespace", "Class"], Field("Whether an address may serve several users.", stored=True)
    ] = "Exclusive"
    quota: Annotated[ClassQuota | None, Field("How many addresses may be in use.")] = None
    auto_assign: Annotated[
        bool | None, Field("False: addresses are given only when asked for by number. By default true.")
    ] = None
    reclaim_policy: ReclaimPolicy = "Delete"
    hold_down: Annotated[
        str, Field("Quarantine after release, since outsiders still trust the address.", stored=True)
    ] = "24h"
    binding_mode: Annotated[
        Literal["Immediate", "WaitForFirstConsumer"], Field("When an address is chosen.", stored=True)
    ] = "Immediate"
    limits: Annotated[AddressLimits | None, Field("Default limits of each address.")] = None


class PoolUse(Struct):
    """Numbers of addresses by state."""

    family: Annotated[IPFamily, Field("Address family.")]
    location: Annotated[str, Field("The place.")] = ""
    total: Annotated[int, Field("All that can be handed out; at most 2^53 are counted.", minimum=0, format="int64")] = 0
    bound: Annotated[int, Field("In use.", minimum=0)] = 0
    available: Annotated[int, Field("Free.", minimum=0, format="int64")] = 0
    quarantined: Annotated[int, Field("Resting after release.", minimum=0)] = 0


class ClassSummary(Struct):
    """The class in a few numbers, for columns."""

    bound: Annotated[int, Field("Addresses in use.", minimum=0)] = counted()
    available: Annotated[int, Field("Addresses that are free.", minimum=0, format="int64")] = counted()


class SourceIPClassStatus(Struct):
    """The class as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    pools: Annotated[list[PoolUse], Field("Addresses by family and place.")] = []
    summary: Annotated[ClassSummary | None, Field("The class in a few numbers.")] = None


class SourceIPClass(Kind):
    """Addresses that managers offer, and the rules for handing them out."""

    spec: Annotated[SourceIPClassSpec, Field("The addresses and their rules.")]
    status: Annotated[SourceIPClassStatus | None, Field("The class as it is.")] = None


class ClaimReference(Struct):
    """The claim that holds an address."""

    namespace: Annotated[str, Field("Its namespace.")]
    name: Annotated[str, Field("Its name.")]
    uid: Annotated[str, Field("Its UID; empty before it is bound.")] = ""
    namespace_uid: Annotated[str, Field("UID of the namespace, which tells it from one made again under its name.")] = (
        msgspec.field(default="", name="namespaceUID")
    )


class SourceIPSpec(Struct):
    """One address."""

    address: Annotated[str, Field("The address. Cannot be changed.", min_length=1)]
    class_name: Annotated[str, Field("Its class. Cannot be changed.", min_length=1)]
    location: Annotated[str, Field("Where it is carried; empty: anywhere the class is.")] = ""
    claim_ref: Annotated[ClaimReference | None, Field("The claim that holds it.")] = None
    shared_by: Annotated[
        list[ClaimReference], Field("Further claims that hold it; classes that share with everybody only.")
    ] = []
    reclaim_policy: ReclaimPolicy = "Delete"


class AddressOwner(Struct):
    """The gateway that carries the address."""

    gateway: Annotated[str, Field("Name of the node.")]
    epoch: Annotated[int, Field("Counts the changes of owner.", format="int64", minimum=0)] = 0
    since: Annotated[Time | None, Field("Since when.")] = None


class LastClaim(Struct):
    """The claim that held an address last; outsiders may still trust it under the name of that namespace."""

    namespace: Annotated[str, Field("Its namespace.")]
    name: Annotated[str, Field("Its name.")]
    uid: Annotated[str, Field("Its UID.")] = ""
    namespace_uid: Annotated[
        str, Field("UID of the namespace. A resting address goes back to this namespace only.")
    ] = msgspec.field(default="", name="namespaceUID")
    released_at: Annotated[Time | None, Field("When it let go.")] = None


AddressPhase = Literal["Available", "Bound", "Released", "Quarantined", "Conflict"]


class SourceIPStatus(Struct):
    """The address as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    phase: Annotated[AddressPhase | None, Field("State of the address.")] = None
    id: Annotated[int, Field("Identity that its packets carry, 1 to 65535.", minimum=0, maximum=65535)] = 0
    owner: Annotated[AddressOwner | None, Field("The gateway that carries it.")] = None
    last_failover: Annotated[Time | None, Field("When the owner last changed.")] = None
    quarantined_until: Annotated[Time | None, Field("When it is free again.")] = None
    last_claim: Annotated[LastClaim | None, Field("The claim that held it last.")] = None


class SourceIP(Kind):
    """One address, named after it, so that creating the object is the lock on the address."""

    spec: Annotated[SourceIPSpec, Field("The address.")]
    status: Annotated[SourceIPStatus | None, Field("The address as it is.")] = None


class SourceIPClaimSpec(Struct):
    """A wish for an address. Cannot be changed once bound, but for the limits."""

    class_name: Annotated[str, Field("The class to take it from.", min_length=1)]
    families: Annotated[
        list[IPFamily], Field("One address of each.", unique=True, min_items=1, max_items=2, stored=True)
    ] = msgspec.field(default_factory=lambda: ["IPv4"])
    address: Annotated[str, Field("Exactly this address; by default any.")] = ""
    location: Annotated[str, Field("Where it must be routable; by default anywhere the class is.")] = ""
    limits: Annotated[AddressLimits | None, Field("Limits, lower than the class's.")] = None


class SourceIPClaimStatus(Struct):
    """The claim as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    phase: Annotated[Literal["Pending", "Bound", "Lost"] | None, Field("State of the claim.")] = None
    addresses: Annotated[list[str], Field("Addresses it holds, in the order of its families.")] = []
    source_ip_names: Annotated[list[str], Field("The SourceIP objects of the addresses.")] = msgspec.field(
        name="sourceIPNames", default_factory=list
    )


class SourceIPClaim(Kind):
    """A namespace's hold on an address."""

    spec: Annotated[SourceIPClaimSpec, Field("Which address.")]
    status: Annotated[SourceIPClaimStatus | None, Field("The claim as it is.")] = None
