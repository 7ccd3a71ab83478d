"""Network and its derived objects in each place: NetworkBinding, NetworkContext, SubnetClaim, Subnet."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from tarmac.api.declare import Field, Struct
from tarmac.api.shared import (
    Conditions,
    IPFamily,
    Kind,
    LocalObjectReference,
    LocationReference,
    ObservedGeneration,
)

Encryption = Literal["BetweenLocations", "Always", "Never"]
MTU = Annotated[int, Field("Largest packet in bytes.", minimum=1300, maximum=8856, stored=True)]


class IPAM(Struct):
    """The source of the network's addresses."""

    mode: Annotated[Literal["Auto", "Policy"], Field("Auto: ranges are chosen when not given.")]
    ipv4_range: Annotated[
        str,
        Field(
            "IPv4 range, /28 or larger, without host bits; by default 10.128.0.0/9, or another if a node "
            "or another Network of the namespace is in it. "
            "Cannot be changed."
        ),
    ] = ""
    ipv6_range: Annotated[
        str, Field("IPv6 range, without host bits; by default a /48 from fd20::/20. Cannot be changed.")
    ] = ""


class NetworkSpec(Struct):
    """The spec of a Network."""

    ipam: Annotated[IPAM, Field("Where its addresses come from.")]
    ip_families: Annotated[
        list[IPFamily],
        Field("Address families it carries; by default IPv4.", unique=True, min_items=1, max_items=2, stored=True),
    ] = msgspec.field(default_factory=lambda: ["IPv4"])
    mtu: MTU = 1460
    encryption: Annotated[
        Encryption,
        Field(
            "Which traffic of its instances is encrypted between nodes: that between nodes of different Locations "
            "(BetweenLocations, the default), all of it (Always), or none (Never).",
            stored=True,
        ),
    ] = "BetweenLocations"


class NetworkStatus(Struct):
    """The network as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    vni: Annotated[int, Field("Number that keeps its traffic apart on the wire.", minimum=0)] = 0
    ipv4_range: Annotated[str, Field("IPv4 range in use.")] = ""
    ipv6_range: Annotated[str, Field("IPv6 range in use.")] = ""


class Network(Kind):
    """A private network that instances in every city can be attached to."""

    spec: Annotated[NetworkSpec, Field("The specification of the network.")]
    status: Annotated[NetworkStatus | None, Field("The network as it is.")] = None


class NetworkRef(Struct):
    """A Network."""

    name: Annotated[str, Field("Name of the Network.", min_length=1)]
    namespace: Annotated[str, Field("Its namespace; by default the same.")] = ""


class ObjectReference(Struct):
    """An object in some namespace."""

    name: Annotated[str, Field("Its name.")]
    namespace: Annotated[str, Field("Its namespace.")] = ""


class NetworkBindingSpec(Struct):
    """A wish for a network in a place."""

    network: Annotated[NetworkRef, Field("The network. Cannot be changed.")]
    location: Annotated[LocationReference, Field("The place. Cannot be changed.")]


class NetworkBindingStatus(Struct):
    """The binding as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    network_context_ref: Annotated[ObjectReference | None, Field("The context that serves it.")] = None


class NetworkBinding(Kind):
    """A wish for a network in a place, made for each interface of a deployment."""

    spec: Annotated[NetworkBindingSpec, Field("Which network, and where.")]
    status: Annotated[NetworkBindingStatus | None, Field("The binding as it is.")] = None


class NetworkContextSpec(Struct):
    """A network in one place."""

    network: Annotated[LocalObjectReference, Field("The network. Cannot be changed.")]
    location: Annotated[LocationReference, Field("The place. Cannot be changed.")]
    ip_families: Annotated[list[IPFamily], Field("Address families of the network.", unique=True, max_items=2)] = []
    mtu: Annotated[int, Field("Largest packet the network asks for.", minimum=0)] = 0


class NetworkContextStatus(Struct):
    """The context as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    mtu: Annotated[int, Field("Largest packet that works here.", minimum=0)] = 0


class NetworkContext(Kind):
    """A network in one place: one for each network and Location that are used together."""

    spec: Annotated[NetworkContextSpec, Field("Which network, and where.")]
    status: Annotated[NetworkContextStatus | None, Field("The context as it is.")] = None


class SubnetClaimSpec(Struct):
    """A wish for a range of addresses."""

    subnet_class: Annotated[str, Field("Kind of subnet, such as private. Cannot be changed.", min_length=1)]
    network_context: Annotated[LocalObjectReference, Field("The network context it is for. Cannot be changed.")]
    location: Annotated[LocationReference, Field("The place. Cannot be changed.")]
    ip_family: Annotated[IPFamily, Field("Address family. Cannot be changed.")]
    start_address: Annotated[str, Field("First address wanted; by default any.")] = ""
    prefix_length: Annotated[int | None, Field("Size wanted; by default the class's.", minimum=1, maximum=128)] = None


class SubnetClaimStatus(Struct):
    """The claim as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    subnet_ref: Annotated[LocalObjectReference | None, Field("The subnet that serves it.")] = None
    start_address: Annotated[str, Field("First address it got.")] = ""
    prefix_length: Annotated[int | None, Field("Size it got.")] = None


class SubnetClaim(Kind):
    """A wish for a range of addresses of a network in one place."""

    spec: Annotated[SubnetClaimSpec, Field("Which range.")]
    status: Annotated[SubnetClaimStatus | None, Field("The claim as it is.")] = None


class SubnetSpec(Struct):
    """A range of addresses."""

    subnet_class: Annotated[str, Field("Kind of subnet. Cannot be changed.", min_length=1)]
    network_context: Annotated[LocalObjectReference, Field("The network context it belongs to. Cannot be changed.")]
    location: Annotated[LocationReference, Field("The place. Cannot be changed.")]
    ip_family: Annotated[IPFamily, Field("Address family. Cannot be changed.")]
    start_address: Annotated[str, Field("First address; empty until allocated.")] = ""
    prefix_length: Annotated[int | None, Field("Size; unset until allocated.", minimum=0, maximum=128)] = None


class SubnetStatus(Struct):
    """The subnet as it is."""

    observed_generation: ObservedGeneration = 0
    conditions: Conditions = []
    start_address: Annotated[str, Field("First address it has.")] = ""
    prefix_length: Annotated[int | None, Field("Size it has.")] = None


class Subnet(Kind):
    """A range of addresses of a network in one place."""

    spec: Annotated[SubnetSpec, Field("Which range.")]
    status: Annotated[SubnetStatus | None, Field("The subnet as it is.")] = None
