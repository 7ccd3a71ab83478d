"""The Forwarders of this node and the Gateways, each followed once for all parts of the agent that look at them."""

from __future__ import annotations

from tarmac.api.submariner.names import LABEL_NODE, NAMESPACE, node_label
from tarmac.api.submariner.relays import Forwarder, Gateway
from tarmac.client.informer import Informer, Informers
from tarmac.client.targets.typed import FORWARDERS, GATEWAYS


def own_forwarders(informers: Informers, node: str) -> Informer[Forwarder]:
    """Those of a node: the only ones that its agent may follow, by the only selector that is let through."""
    return informers.informer(FORWARDERS, namespace=NAMESPACE, labels=f"{LABEL_NODE}={node_label(node)}")


def all_gateways(informers: Informers) -> Informer[Gateway]:
    """All of them: any may name this node."""
    return informers.informer(GATEWAYS, namespace=NAMESPACE)
