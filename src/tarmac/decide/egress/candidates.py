"""Selection of an address's candidate nodes, their order, its voters and the pairs for connection synchronization."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from tarmac.api.egress.names import LABEL_GATEWAY
from tarmac.api.egress.sourceip import ClassLocation, SourceIPClassSpec
from tarmac.decide.pooled import members
from tarmac.decide.pooled.candidates import MAX_VIRTUAL, able_to_encrypt, linked_gateways
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.pooled.permissions import selects
from tarmac.decide.pooled.ranges import digest
from tarmac.decide.verdict import Verdict

HANDOVER_TIMEOUT = 60.0
"""Seconds that a cordoned owner may wait for its partner; then the address moves, and connections may be lost."""


def _place(offered: SourceIPClassSpec, location: str) -> ClassLocation | None:
    """Return the class's entry for a Location; None if its addresses are not routable there."""
    if not offered.locations:
        return ClassLocation(location)
    return next((each for each in offered.locations if each.name == location), None)


def _is_gateway(offered: SourceIPClassSpec, node: NodeView) -> bool:
    place = _place(offered, node.location)
    if place is None:
        return False
    if place.gateway_selector is not None:
        return selects(place.gateway_selector, node.labels)
    return node.labels.get(LABEL_GATEWAY) == "true"


def _limit(offered: SourceIPClassSpec, node: NodeView) -> int | None:
    place = _place(offered, node.location)
    most = place.max_per_node if place is not None else None
    return MAX_VIRTUAL if most is None and offered.announce == "virtualMAC" else most


def candidates(
    offered: SourceIPClassSpec,
    address: str,
    nodes: Iterable[NodeView],
    *,
    location: str = "",
    owner: str = "",
    load: Mapping[str, int] | None = None,
    shares: str | None = None,
) -> Verdict[tuple[NodeView, ...]]:
    """Return the nodes that may carry an address in order of preference.

    `load` counts the other addresses that each node carries. A cordoned owner stays while no other node can take over,
    and until `shares`, the node synchronized with it, is its partner; None: it is no candidate any more, or its time
    for the handover is over.
    """
    nodes = list(nodes)
    gateways = [node for node in nodes if node.ready and _is_gateway(offered, node) and location in ("", node.location)]
    place = f" at {location}" if location else ""
    verdict = linked_gateways(
        offered, address, gateways, lambda node: _limit(offered, node), place=place, owner=owner, load=load
    )
    if verdict.value is None:
        return Verdict(None, verdict.refusals)
    free, able = verdict.value
    able = able_to_encrypt(able, nodes)
    cordoned = [node for node in free if node.cordoned and node.name == owner and node not in able]
    partner = partners([*able, *cordoned]).get(owner, "")
    if shares is not None and partner not in ("", shares):
        able += cordoned
    able.sort(key=lambda node: (node.name != partner, -digest(address, node.name)))
    return Verdict(tuple(able))


def partners(nodes: Iterable[NodeView]) -> dict[str, str]:
    """Pair the nodes that support connection synchronization: in order of name, within a Location first."""
    pairs: dict[str, str] = {}
    alone: list[NodeView] = []
    by_place: dict[str, list[NodeView]] = {}
    able = [node for node in nodes if node.facts is not None and node.facts.state_sync]
    for node in sorted(able, key=lambda each: each.name):
        by_place.setdefault(node.location, []).append(node)
    for place in sorted(by_place):
        alone += _paired(by_place[place], pairs)
    _paired(sorted(alone, key=lambda each: each.name), pairs)
    return pairs


def _paired(nodes: Sequence[NodeView], pairs: dict[str, str]) -> Sequence[NodeView]:
    """Pair each node with the next it may tunnel to, as synchronized state is confidential; return the rest."""
    left, alone = list(nodes), list[NodeView]()
    while left:
        one = left.pop(0)
        other = next((each for each in left if can_tunnel(one, each)), None)
        if other is None:
            alone.append(one)
        else:
            left.remove(other)
            pairs[one.name], pairs[other.name] = other.name, one.name
    return alone


def voters(
    offered: SourceIPClassSpec, able: Sequence[NodeView], nodes: Iterable[NodeView], current: Collection[str] = ()
) -> tuple[NodeView, ...]:
    """Return an address's voters, from nodes at the class's Locations first."""
    return members.voters(lambda node: _place(offered, node.location) is not None, able, nodes, current)


def can_tunnel(one: NodeView, other: NodeView) -> bool:
    """Return True if two nodes may exchange egress packets: between cities encrypted, or `off` at both nodes."""
    if one.city == other.city:
        return True
    means = {node.facts.encryption if node.facts is not None else "none" for node in (one, other)}
    return means == {"off"} or not means & {"none", "off"}
