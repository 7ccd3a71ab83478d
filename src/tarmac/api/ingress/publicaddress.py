"""PublicAddress: one address of an AddressPool, its holder, and the nodes that announce it."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tarmac.api.declare import Field, Struct, Time
from tarmac.api.egress.forwarding import GatewayNode
from tarmac.api.egress.sourceip import AddressPhase, ReclaimPolicy
from tarmac.api.shared import Conditions, Kind, ObservedGeneration

HolderKind = Literal["Service", "Workload"]
MAX_SHARED = 256  # Services beside the first
MAX_NODES = 4096
MAX_VOTERS = 7


class HolderReference(Struct):
    """The Service or Workload that holds an address; a namespace alone reserves the address for it."""

    namespace: Annotated[str, Field("Its namespace.", min_length=1)]
    kind: Annotated[HolderKind | None, Field("Its kind; left out in a reservation.")] = None
    name: Annotated[str, Field("Its name; empty in a reservation.")] = ""
    uid: Annotated[str, Field("Its UID; empty before it is bound.")] = ""
    namespace_uid: Annotated[str, Field("UID of the namespace, which tells it from one made again under its name.")] = (
        msgspec.field(default="", name="namespaceUID")
    )


class PublicAddressSpec(Struct):
    """One address."""

    address: Annotated[str, Field("The address. Cannot be changed.", min_length=1)]
    pool_name: Annotated[str, Field("Its AddressPool. Cannot be changed.", min_length=1)]
    claim_ref: Annotated[HolderReference | None, Field("The Service or Workload that holds it.")] = None
    shared_by: Annotated[
        list[HolderReference],
        Field(
            "Further Services of the same namespace that hold it. For a protocol and port that several of them have, "
            "claimRef comes first, then this list in its order.",
            max_items=MAX_SHARED,
        ),
    ] = []
    candidates: Annotated[
        list[GatewayNode],
        Field(
            "Nodes that may own the address on its segment, the first in line first. Written by the controller.",
            key="name",
            max_items=MAX_NODES,
        ),
    ] = []
    voters: Annotated[
        list[GatewayNode],
        Field(
            "Nodes that promise the address to one candidate at a time. Written by the controller.",
            key="name",
            max_items=MAX_VOTERS,
        ),
    ] = []
    leaving: Annotated[
        list[GatewayNode],
        Field(
            "Nodes that were candidates and have not acknowledged that they are none; voters wait for them. Written by "
            "the controller.",
            key="name",
            max_items=MAX_NODES,
        ),
    ] = []
    reclaim_policy: ReclaimPolicy = "Delete"


class LastHolder(Struct):
    """The holder that an address had last; outsiders may still trust it as that holder's."""

    namespace: Annotated[str, Field("Its namespace.")]
    kind: Annotated[HolderKind | None, Field("Its kind.")] = None
    name: Annotated[str, Field("Its name.")] = ""
    uid: Annotated[str, Field("Its UID.")] = ""
    namespace_uid: Annotated[
        str, Field("UID of the namespace. A resting address goes back to this namespace only.")
    ] = msgspec.field(default="", name="namespaceUID")
    released_at: Annotated[Time | None, Field("When it was released.")] = None


class AnnouncingNode(Struct):
    """A node that has the rules of the address in force. Each node writes its own entry."""

    name: Annotated[str, Field("Name of the node.", min_length=1, max_length=253)]
    location: Annotated[str, Field("Its Location.", max_length=253)] = ""
    announcing: Annotated[bool, Field("Whether it announces the address.")] = False
    via: Annotated[str, Field("The interface or the BGPPeers by which it does.", max_length=1024)] = ""
    since: Annotated[Time | None, Field("Since when it does, or does not.")] = None
    reason: Annotated[str, Field("Why it does not, or should not, as one CamelCase word.", max_length=128)] = ""
    applied_generation: Annotated[
        int,
        Field(
            "The metadata.generation whose candidates and voters the node uses; of present and former candidates only.",
            minimum=0,
            format="int64",
        ),
    ] = 0


class PublicAddressStatus(Struct):
    """The address as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    phase: Annotated[AddressPhase | None, Field("State of the address.")] = None
    nodes: Annotated[
        list[AnnouncingNode], Field("Nodes with the rules of the address in force.", key="name", max_items=MAX_NODES)
    ] = []
    last_claim: Annotated[LastHolder | None, Field("The holder that it had last.")] = None
    quarantined_until: Annotated[Time | None, Field("When it is free again.")] = None


class PublicAddress(Kind):
    """One address, named after it, so that creating the object is the lock on the address."""

    spec: Annotated[PublicAddressSpec, Field("The address.")]
    status: Annotated[PublicAddressStatus | None, Field("The address as it is.")] = None
