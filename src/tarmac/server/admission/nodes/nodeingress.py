"""Restricts nodes' writes to PublicAddresses and BGPPeers: each node reports only for itself.

The status of both has a list with an entry for each node. A node writes only the entry of its own name, with its own
Location: a node that wrote a different one could make an address look announced where it is not.
"""

from __future__ import annotations

from tarmac.api.checks import mapping, objects
from tarmac.api.declare import decode
from tarmac.api.ingress.addresspool import AddressPoolSpec
from tarmac.api.ingress.bgppeer import BGPPeerSpec
from tarmac.api.ingress.names import ADDRESS_POOLS
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.decide.ingress.selecting import has_session, is_gateway
from tarmac.server.admission.chain import Attributes
from tarmac.server.admission.nodes.nodeforwarding import only_status
from tarmac.server.admission.refusal import refuse
from tarmac.server.reader import Reader

_NODES = "core/nodes"


def admit_public_address(node: str, attributes: Attributes, reader: Reader) -> None:
    """Allow a node to update its own entry in the status of a PublicAddress. Raises Forbidden."""
    _only_own_entry(node, attributes, "publicaddresses")
    entry, labels = _entry(attributes.obj, node), _labels(reader, node)
    location = labels.get(LABEL_LOCATION, "")
    if entry.get("location", location) != location:
        raise refuse(attributes, f"status.nodes[{node}].location: must be {location!r}, the Location of the node")
    if not entry.get("announcing") or _entry(attributes.old, node).get("announcing"):
        return
    pool_name = mapping(attributes.old, "spec").get("poolName", "")
    pool = reader.get(ADDRESS_POOLS, pool_name)
    if pool is None or not is_gateway(decode(AddressPoolSpec, pool["spec"]), labels):
        detail = f'AddressPool "{pool_name}" does not choose the node by locations and gatewaySelector'
        raise refuse(attributes, f"status.nodes[{node}].announcing: must not be true: {detail}")


def admit_peer(node: str, attributes: Attributes, reader: Reader) -> None:
    """Allow a node to update its own entry in the status of a BGPPeer that it has a session with. Raises Forbidden."""
    _only_own_entry(node, attributes, "bgppeers")
    if not _entry(attributes.obj, node):
        return
    if not has_session(decode(BGPPeerSpec, mapping(attributes.old, "spec")), _labels(reader, node)):
        raise refuse(attributes, f'node "{node}" can only update bgppeers that choose it by locations and nodeSelector')


def _only_own_entry(node: str, attributes: Attributes, plural: str) -> None:
    if attributes.subresource != "status":
        raise refuse(attributes, f'node "{node}" can only update the status of {plural}')
    if _without(attributes.obj, node) != _without(attributes.old, node):
        raise refuse(attributes, f'node "{node}" can only update its own entry of status.nodes')
    only_status(node, attributes)


def _labels(reader: Reader, node: str) -> dict[str, str]:
    return mapping(reader.get(_NODES, node), "metadata", "labels")


def _entry(obj: JsonObject | None, node: str) -> JsonObject:
    return next((each for each in objects(mapping(obj, "status"), "nodes") if each.get("name") == node), {})


def _without(obj: JsonObject | None, node: str) -> JsonObject:
    """Return the status without the node's own entry."""
    status = dict(mapping(obj, "status"))
    others = [each for each in objects(status, "nodes") if each.get("name") != node]
    status.pop("nodes", None)
    return {**status, "nodes": others} if others else status
