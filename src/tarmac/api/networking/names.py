"""Names that the networking kinds share."""

from __future__ import annotations

from hashlib import sha256

GROUP = "networking.datumapis.com"
API_VERSION = f"{GROUP}/v1alpha"

TOPOLOGY_CITY_CODE = "topology.datum.net/city-code"
TOPOLOGY_REGION = "topology.datum.net/region"

LABEL_LOCATION = "topology.datum.net/location"
"""Label of a node: the Location it belongs to."""

LABEL_ZONE = "topology.kubernetes.io/zone"
"""Label of a node, as in Kubernetes: its city, in lower case."""

LABEL_REGION = "topology.kubernetes.io/region"

ANNOTATION_INTERFACES = f"{GROUP}/interfaces"
"""Annotation of an Instance and its Pod: the interfaces with their addresses, written by `encode_interfaces`.

It is written once and never changes.
"""

LOCATION_FINALIZER = f"{GROUP}/location-in-use"
"""Holds a Location while a deployment is assigned to it."""

NETWORK_FINALIZER = f"{GROUP}/network-controller"
"""Holds a Network until its derived objects in each place are gone."""

DEFAULT_NETWORK = "default"
ANNOTATION_DEFAULT_NETWORK = f"{GROUP}/default-network"
"""Annotation of a namespace: `none` means that it gets no default Network."""

SYSTEM_PREFIX = "kube-"
"""Namespaces of the system itself; they share one Network instead of having one each."""

INTERNAL_NETWORK = "kube-system/internal"
"""The Network of the system's own Pods, as namespace/name."""

LABEL_BOUND_FOR = f"{GROUP}/bound-for"
"""Label of a NetworkBinding that no deployment owns: its purpose, such as `pods`."""

ANNOTATION_NETWORK = f"{GROUP}/network"
"""Annotation of an EndpointSlice: the Network, as namespace/name, that its addresses are on.

Without it they are outside all networks.
"""

ANNOTATION_UNDERLAY_MTU = f"{GROUP}/underlay-mtu"
"""Annotation of a node: the largest packet, in bytes, that reaches other nodes."""

RESOLVERS = ("169.254.20.10", "fd00:96:20::a")
"""Addresses of the DNS resolver for pods, in every Network."""

SERVICE_RANGES = ("10.96.0.0/12", "fd00:96::/112")
"""Address ranges of Services, by family."""

NODE_MARKS = ("240.0.0.0/4", "fd74:6172:6d63:fffe::/64")
"""Ranges of the addresses that represent nodes inside networks, by family."""

UPLINKS = ("169.254.64.0/18", "fd74:6172:6d63:ffff::/64")
"""Ranges of the networks' ends of the links between a node and its networks, by family. They are local to the node."""

DIALLED = ("169.254.192.0/18", "fd74:6172:6d63:fffc::/64")
"""Ranges of the addresses that pods dial for servers outside the platform, by family; not routed."""

TRANSITS = ("240.0.0.0/4", "fd74:6172:6d63:fffd::/64")
"""Ranges of the transit addresses of such connections between nodes, by family.

They are local to the egress namespaces of nodes, so the first may equal the range that represents nodes elsewhere.
"""

INGRESS_LINK = ("169.254.63.1", "fd74:6172:6d63:fffb::1")
"""Addresses of the node on the link to its ingress namespace, by family: the source of its own packets there."""

INGRESS_HOPS = ("169.254.63.2", "fd74:6172:6d63:fffb::2")
"""The other end of that link, by family."""

NODE_PORTS = ("169.254.62.1", "fd74:6172:6d63:fffa::1")
"""Addresses that node ports are translated to, by family: in ingress namespaces they stand for any node."""

METADATA_ADDRESS = "169.254.169.254"
"""Address of the metadata service for pods, in every Network."""

SUBNET_CLASS = "private"
"""The class of the subnets that instances get their addresses from."""

_NETWORK_PART, _LOCATION_PART, _HASH_PART = 30, 20, 8


def pods_network(namespace: str) -> str:
    """Return the Network of a namespace's plain Pods, as namespace/name."""
    return INTERNAL_NETWORK if namespace.startswith(SYSTEM_PREFIX) else f"{namespace}/{DEFAULT_NETWORK}"


def context_name(network: str, location: str) -> str:
    """Return the name of the NetworkContext of a network in a place: readable, bounded, and unique for each pair."""
    digest = sha256(f"{network}\0{location}".encode()).hexdigest()[:_HASH_PART]
    return f"{network[:_NETWORK_PART].rstrip('.')}-{location[:_LOCATION_PART].rstrip('.')}-{digest}"


def subnet_name(context: str, family: str) -> str:
    """Return the name of the SubnetClaim of a context for a family, and of the Subnet that serves it."""
    return f"{context}-{family.lower()}"
