"""What a node may write on Forwarders and Gateways: its own word, and nobody else's.

A Forwarder is one node's. A Gateway's status has an entry for each node that may carry the address or votes on it, and
a node writes the entry of its own name only: a node that spoke for another could make forwarders send there.
"""

from __future__ import annotations

from tarmac.api.kubernetes.checks import mapping, objects
from tarmac.api.schema import JsonObject
from tarmac.server.admission.chain import Attributes
from tarmac.server.admission.refusal import refuse


def admit_forwarder(node: str, attributes: Attributes) -> None:
    """The status of its own. Raises Forbidden."""
    if attributes.subresource != "status":
        raise refuse(attributes, f'node "{node}" can only update the status of forwarders')
    if mapping(attributes.old, "spec").get("nodeName") != node:
        raise refuse(attributes, f'node "{node}" can only update forwarders with spec.nodeName set to itself')
    _only_status(node, attributes)


def admit_gateway(node: str, attributes: Attributes) -> None:
    """Its own entry in the status of one that it is named in. Raises Forbidden."""
    if attributes.subresource != "status":
        raise refuse(attributes, f'node "{node}" can only update the status of gateways')
    if not _names(attributes.old, node):
        raise refuse(attributes, f'node "{node}" can only update gateways that name it as a candidate or voter')
    if _without(attributes.obj, node) != _without(attributes.old, node):
        raise refuse(attributes, f'node "{node}" can only update its own entry of status.nodes')
    _only_status(node, attributes)


_NAMED = ("candidates", "voters", "leaving")


def _names(gateway: JsonObject | None, node: str) -> bool:
    spec = mapping(gateway, "spec")
    return any(each.get("name") == node for field in _NAMED for each in objects(spec, field))


def _without(gateway: JsonObject | None, node: str) -> JsonObject:
    """All of the status but what the node says."""
    status = dict(mapping(gateway, "status"))
    others = [each for each in objects(status, "nodes") if each.get("name") != node]
    return {**status, "nodes": others} if others else {key: each for key, each in status.items() if key != "nodes"}


def _only_status(node: str, attributes: Attributes) -> None:
    new, old = mapping(attributes.obj, "metadata"), mapping(attributes.old, "metadata")
    for field in ("labels", "annotations", "finalizers", "ownerReferences"):
        if (new.get(field) or None) != (old.get(field) or None):
            raise refuse(attributes, f'node "{node}" cannot update {field} through the status')
