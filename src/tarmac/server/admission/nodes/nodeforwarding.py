"""Restricts nodes' writes to Forwarders and Gateways: each node reports only for itself.

A Forwarder belongs to one node. A Gateway's status has an entry for each candidate and voter, and a node writes only
the entry of its own name: a node that wrote a different one could redirect forwarders' traffic to that node.

Every candidate continues above the highest epoch that it reads there, so epochs are bounded (`highest_epoch`).
"""

from __future__ import annotations

from typing import Final

from tarmac.api.checks import mapping, objects
from tarmac.api.schema import JsonObject
from tarmac.decide.egress.lease.epochs import highest_epoch
from tarmac.server.admission.chain import Attributes
from tarmac.server.admission.refusal import refuse

_METADATA: Final = ("labels", "annotations", "finalizers", "ownerReferences")


def admit_forwarder(node: str, attributes: Attributes) -> None:
    """Allow a status update of the node's own Forwarder. Raises Forbidden."""
    if attributes.subresource != "status":
        raise refuse(attributes, f'node "{node}" can only update the status of forwarders')
    if mapping(attributes.old, "spec").get("nodeName") != node:
        raise refuse(attributes, f'node "{node}" can only update forwarders with spec.nodeName set to itself')
    only_status(node, attributes)


def admit_gateway(node: str, attributes: Attributes, now: float) -> None:
    """Allow a node to update its own entry in the status of a Gateway that names it. Raises Forbidden.

    `now` is the Unix time.
    """
    if attributes.subresource != "status":
        raise refuse(attributes, f'node "{node}" can only update the status of gateways')
    if not _names(attributes.old, node):
        raise refuse(attributes, f'node "{node}" can only update gateways that name it as a candidate or voter')
    if _without(attributes.obj, node) != _without(attributes.old, node):
        raise refuse(attributes, f'node "{node}" can only update its own entry of status.nodes')
    _check_ownership(node, attributes, highest_epoch(now))
    only_status(node, attributes)


def _check_ownership(node: str, attributes: Attributes, highest: int) -> None:
    """Raise Forbidden for an owner that is not a candidate, and for an impossibly high epoch."""
    new, old = _entry(attributes.obj, node), _entry(attributes.old, node)
    epoch = new.get("epoch") or 0
    if epoch > highest and epoch != old.get("epoch"):
        raise refuse(
            attributes,
            f"status.nodes[{node}].epoch: {epoch} is more changes of owner than there can have been: must be at most "
            f"{highest}; if the address has come so far, compare the server's clock, or claim another address",
        )
    carries = (bool(new.get("owner")), epoch)
    if any(carries) and carries != (bool(old.get("owner")), old.get("epoch") or 0) and not _may_carry(attributes, node):
        raise refuse(
            attributes,
            f"status.nodes[{node}]: owner and epoch are for nodes in spec.candidates or spec.leaving; a voter leaves "
            "them out",
        )


def _may_carry(attributes: Attributes, node: str) -> bool:
    spec = mapping(attributes.old, "spec")
    return any(each.get("name") == node for field in ("candidates", "leaving") for each in objects(spec, field))


def _entry(gateway: JsonObject | None, node: str) -> JsonObject:
    return next((each for each in objects(mapping(gateway, "status"), "nodes") if each.get("name") == node), {})


_NAMED = ("candidates", "voters", "leaving")


def _names(gateway: JsonObject | None, node: str) -> bool:
    spec = mapping(gateway, "spec")
    return any(each.get("name") == node for field in _NAMED for each in objects(spec, field))


def _without(gateway: JsonObject | None, node: str) -> JsonObject:
    """Return the status without the node's own entry."""
    status = dict(mapping(gateway, "status"))
    others = [each for each in objects(status, "nodes") if each.get("name") != node]
    return {**status, "nodes": others} if others else {key: each for key, each in status.items() if key != "nodes"}


def only_status(node: str, attributes: Attributes, *allowed: str) -> None:
    """Raise Forbidden if a status update changes metadata, except for the allowed fields.

    A finalizer would block deletion of the object and its namespace after the node is removed.
    """
    new, old = mapping(attributes.obj, "metadata"), mapping(attributes.old, "metadata")
    for field in _METADATA:
        if field not in allowed and (new.get(field) or None) != (old.get(field) or None):
            raise refuse(attributes, f'node "{node}" cannot update {field} through the status')
