"""Shared informers of this node's Forwarders and of the Gateways."""

from __future__ import annotations

from tarmac.api.egress.forwarding import Forwarder, Gateway
from tarmac.api.egress.names import LABEL_NODE, NAMESPACE, node_label
from tarmac.client.informer import Informer, Informers
from tarmac.client.targets.typed import FORWARDERS, GATEWAYS


def own_forwarders(informers: Informers, node: str) -> Informer[Forwarder]:
    """Return the informer of a node's Forwarders: its agent may watch only these, with only this selector."""
    return informers.informer(FORWARDERS, namespace=NAMESPACE, labels=f"{LABEL_NODE}={node_label(node)}")


def all_gateways(informers: Informers) -> Informer[Gateway]:
    """Return the informer of all Gateways: any may name this node."""
    return informers.informer(GATEWAYS, namespace=NAMESPACE)
