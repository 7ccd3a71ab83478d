"""Selection of the nodes that may carry an address of a class or pool, from those that its rules choose as gateways."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from tarmac.api.egress.addressrules import bounds_of
from tarmac.api.egress.names import LABEL_GATEWAY, Address
from tarmac.api.egress.nodefacts import NodeFacts, interface_addresses
from tarmac.decide import reasons
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.pooled.ranges import Offered
from tarmac.decide.verdict import Refusal, Verdict

MAX_VIRTUAL = 256
"""Limit of addresses per node with virtualMAC: each needs its own link."""


class LinkedGateways(NamedTuple):
    """Gateways with an interface on an address's segment and with room: all, and those that may take it over."""

    free: list[NodeView]
    able: list[NodeView]


def linked_gateways(
    offered: Offered,
    address: str,
    gateways: list[NodeView],
    limit: Callable[[NodeView], int | None],
    *,
    place: str = "",
    owner: str = "",
    load: Mapping[str, int] | None = None,
) -> Verdict[LinkedGateways]:
    """Return the gateways that may carry an address, which are Ready and chosen by its class or pool.

    `load` counts the other addresses that each node carries, `limit` is the most that one may. A cordoned owner stays
    while no other node can take over. `place` describes where gateways were looked for.
    """
    if not gateways:
        message = f"No Ready node{place} may carry {address}."
        return Verdict(None, (Refusal(reasons.NO_GATEWAY, message, change=f"Label a node {LABEL_GATEWAY}=true."),))
    parsed = ip_address(address)
    linked = [node for node in gateways if outside_interface(node.facts, offered, parsed) is not None]
    if not linked:
        message = f"None of {len(gateways)} gateways has an interface on the segment of {address}."
        change = "Name the interface in subnet.interface, or give a gateway an address of the segment."
        return Verdict(None, (Refusal(reasons.NO_OUTSIDE_INTERFACE, message, change=change),))
    free = [node for node in linked if node.name == owner or not _is_full(limit(node), node, load or {})]
    if not free:
        message = f"All {len(linked)} gateways carry as many addresses as they may."
        return Verdict(None, (Refusal(reasons.GATEWAY_FULL, message, change="Add a gateway, or raise maxPerNode."),))
    able = [node for node in free if not node.cordoned] or [node for node in free if node.name == owner]
    if not able:
        message = f"Every gateway that could carry {address} is cordoned."
        return Verdict(None, (Refusal(reasons.NO_GATEWAY, message, change="Uncordon one."),))
    return Verdict(LinkedGateways(free, able))


def outside_interface(facts: NodeFacts | None, offered: Offered, address: Address) -> str | None:
    """Return the node's interface on the segment of an address; None if it has none."""
    named = offered.subnet.interface if offered.subnet is not None else ""
    if named:
        return next((each.name for each in facts.interfaces if each.name == named), None) if facts is not None else None
    length = offered.subnet.prefix_length if offered.subnet is not None else None
    if length is not None and length <= address.max_prefixlen and (length > 32) == (address.version == 6):
        segment = ip_network((int(address), length), strict=False)
        first, last = int(segment.network_address), int(segment.broadcast_address)
    else:
        whole = next((each for each in map(bounds_of, offered.ranges) if each.holds(address)), None)
        first, last = (whole.first, whole.last) if whole is not None else (1, 0)
    for name, own, prefix in interface_addresses(facts):
        around = ip_network((int(own), prefix), strict=False) if own.version == address.version else None
        if around is not None and (first <= int(own) <= last or address in around):
            return name
    return None


def able_to_encrypt(able: list[NodeView], nodes: Iterable[NodeView]) -> list[NodeView]:
    """Drop nodes that cannot encrypt, if there is more than one city and a node that can.

    Every candidate may own the address next, and must have tunnels to the pods of all cities then.
    """
    if len({node.city for node in nodes if node.facts is not None}) < 2:
        return able
    return [node for node in able if node.facts is not None and node.facts.encryption != "none"] or able


def _is_full(limit: int | None, node: NodeView, load: Mapping[str, int]) -> bool:
    return limit is not None and load.get(node.name, 0) >= limit
