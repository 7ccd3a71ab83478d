"""Names that the kinds for external services share."""

from __future__ import annotations

import ipaddress
from hashlib import sha256

GROUP = "submariner.io"
API_VERSION = f"{GROUP}/v1alpha1"

NAMESPACE = "external-services"
"""The namespace of Forwarders and Gateways only: they are internal."""

LABEL_NAMESPACE = f"{GROUP}/namespace"
LABEL_EXTERNAL_SERVICE = f"{GROUP}/external-service"
LABEL_NODE = f"{GROUP}/node"
"""Labels of a Forwarder: its ExternalService, and the node that applies it (`node_label`)."""

LABEL_CLASS = f"{GROUP}/class"
"""Label of a Gateway: the class of its address."""

LABEL_GATEWAY = f"{GROUP}/gateway"
"""Label of a node that may own addresses, with the value `true`, unless a class selects other nodes.

Set by managers.
"""

ANNOTATION_ALLOWED_FROM = f"{GROUP}/allowed-from"
"""Annotation of a Service: the ExternalServices of other namespaces that may use its Pods.

A comma-separated list of `namespace` or `namespace/externalservice`, or `*`.
"""

ANNOTATION_NODE_FACTS = f"{GROUP}/node-facts"
"""Annotation of a Node, written by its agent: its capabilities for external services, as JSON (`nodefacts`)."""

EXTERNAL_SERVICE_FINALIZER = f"{GROUP}/external-service"
CLAIM_FINALIZER = f"{GROUP}/claim-protection"
ADDRESS_FINALIZER = f"{GROUP}/address-protection"
CLASS_FINALIZER = f"{GROUP}/class-protection"

_MAX_LABEL = 63

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def object_name(address: Address) -> str:
    """Return the name of an address's SourceIP and Gateway: the IPv4 address, or the 32 hex digits of IPv6."""
    return str(address) if address.version == 4 else f"{int(address):032x}"


def end_point(address: str, port: int) -> str:
    """Return `address:port`, with brackets around an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def node_digits(node: str) -> str:
    """Return eight hex digits of the hash of a node's name."""
    return sha256(node.encode()).hexdigest()[:8]


def node_label(node: str) -> str:
    """Return the value of `LABEL_NODE`: the node's name or, if that is too long for a label, its digits."""
    return node if len(node) <= _MAX_LABEL else node_digits(node)


def forwarder_name(namespace: str, name: str, node: str) -> str:
    """Return the name of the Forwarder of an ExternalService on a node."""
    return f"{namespace}.{name}.{node_digits(node)}"


def forwarded_service(forwarder: str) -> str:
    """Return the ExternalService of a Forwarder, as namespace/name. Neither part contains a dot."""
    return forwarder.rpartition(".")[0].replace(".", "/")
