"""Names that the kinds for external services share."""

from __future__ import annotations

import ipaddress
from hashlib import sha256

GROUP = "submariner.io"
API_VERSION = f"{GROUP}/v1alpha1"

NAMESPACE = "external-services"
"""Of Forwarders and Gateways, and of nothing else: they are not for users."""

LABEL_NAMESPACE = f"{GROUP}/namespace"
LABEL_EXTERNAL_SERVICE = f"{GROUP}/external-service"
LABEL_NODE = f"{GROUP}/node"
"""Labels of a Forwarder: whose it is, and on which node it is carried out (`node_label`)."""

LABEL_CLASS = f"{GROUP}/class"
"""Label of a Gateway: the class of its address."""

LABEL_GATEWAY = f"{GROUP}/gateway"
"""Label of a node that may carry addresses, with the value `true`, unless a class says otherwise. Set by managers."""

ANNOTATION_ALLOWED_FROM = f"{GROUP}/allowed-from"
"""Annotation of a Service: which ExternalServices of other namespaces may use its Pods. A list with commas of
`namespace` or `namespace/externalservice`, or `*`."""

ANNOTATION_NODE_FACTS = f"{GROUP}/node-facts"
"""Annotation of a Node, written by its agent: what it can do for external services, as JSON (`nodefacts`)."""

EXTERNAL_SERVICE_FINALIZER = f"{GROUP}/external-service"
CLAIM_FINALIZER = f"{GROUP}/claim-protection"
ADDRESS_FINALIZER = f"{GROUP}/address-protection"
CLASS_FINALIZER = f"{GROUP}/class-protection"

_LONGEST_LABEL = 63

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


def object_name(address: Address) -> str:
    """The name of an address's SourceIP and Gateway: as it is written, or for IPv6 its 32 hex digits."""
    return str(address) if address.version == 4 else f"{int(address):032x}"


def end_point(address: str, port: int) -> str:
    """`address:port`, with brackets around an IPv6 address."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def node_digits(node: str) -> str:
    """Eight hex digits that stand for a node's name."""
    return sha256(node.encode()).hexdigest()[:8]


def node_label(node: str) -> str:
    """The value of `LABEL_NODE`: the node's name, or where that is too long for a label, its digits."""
    return node if len(node) <= _LONGEST_LABEL else node_digits(node)


def forwarder_name(namespace: str, name: str, node: str) -> str:
    """The Forwarder of an ExternalService on a node."""
    return f"{namespace}.{name}.{node_digits(node)}"


def forwarded_service(forwarder: str) -> str:
    """The ExternalService of a Forwarder of this name, as namespace/name. Neither has a dot in it."""
    return forwarder.rpartition(".")[0].replace(".", "/")
