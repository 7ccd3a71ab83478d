"""Selection of an address's candidate nodes, their order, its voters and the pairs for connection synchronization."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from ipaddress import ip_address, ip_network

from tarmac.api.egress.addressrules import bounds_of
from tarmac.api.egress.names import LABEL_GATEWAY, Address
from tarmac.api.egress.nodefacts import NodeFacts, interface_addresses
from tarmac.api.egress.sourceip import ClassLocation, SourceIPClassSpec
from tarmac.decide import reasons
from tarmac.decide.egress.views import NodeView
from tarmac.decide.pooled.permissions import selects
from tarmac.decide.pooled.ranges import Offered, digest
from tarmac.decide.verdict import Refusal, Verdict

MAX_VOTERS = 5
HANDOVER_TIMEOUT = 60.0
"""Seconds that a cordoned owner may wait for its partner; then the address moves, and connections may be lost."""
_MAX_VIRTUAL = 256  # limit of addresses per node with virtualMAC: each needs its own link


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


def _is_full(offered: SourceIPClassSpec, node: NodeView, load: Mapping[str, int]) -> bool:
    place = _place(offered, node.location)
    most = place.max_per_node if place is not None else None
    if most is None and offered.announce == "virtualMAC":
        most = _MAX_VIRTUAL
    return most is not None and load.get(node.name, 0) >= most


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
    if not gateways:
        where = f" at {location}" if location else ""
        message = f"No Ready node{where} may carry {address}."
        return Verdict(None, (Refusal(reasons.NO_GATEWAY, message, change=f"Label a node {LABEL_GATEWAY}=true."),))
    parsed = ip_address(address)
    linked = [node for node in gateways if outside_interface(node.facts, offered, parsed) is not None]
    if not linked:
        message = f"None of {len(gateways)} gateways has an interface on the segment of {address}."
        change = "Name the interface in the class's subnet.interface, or give a gateway an address of the segment."
        return Verdict(None, (Refusal(reasons.NO_OUTSIDE_INTERFACE, message, change=change),))
    free = [node for node in linked if node.name == owner or not _is_full(offered, node, load or {})]
    if not free:
        message = f"All {len(linked)} gateways carry as many addresses as they may."
        return Verdict(None, (Refusal(reasons.GATEWAY_FULL, message, change="Add a gateway, or raise maxPerNode."),))
    able = [node for node in free if not node.cordoned] or [node for node in free if node.name == owner]
    if not able:
        message = f"Every gateway that could carry {address} is cordoned."
        return Verdict(None, (Refusal(reasons.NO_GATEWAY, message, change="Uncordon one."),))
    able = _able_to_encrypt(able, nodes)
    cordoned = [node for node in free if node.cordoned and node.name == owner and node not in able]
    partner = partners([*able, *cordoned]).get(owner, "")
    if shares is not None and partner not in ("", shares):
        able += cordoned
    able.sort(key=lambda node: (node.name != partner, -digest(address, node.name)))
    return Verdict(tuple(able))


def _able_to_encrypt(able: list[NodeView], nodes: Iterable[NodeView]) -> list[NodeView]:
    """Drop nodes that cannot encrypt, if there is more than one city and a node that can.

    Pods must be able to tunnel to every candidate, since any may own the address next: a single gateway without
    encryption would cause the pods of all other cities to be refused.
    """
    if len({node.city for node in nodes if node.facts is not None}) < 2:
        return able
    return [node for node in able if node.facts is not None and node.facts.encryption != "none"] or able


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
    """Return an address's voters: its candidates, filled up to three with other nodes; an odd number, at most five.

    With fewer than three nodes no majority survives a loss, so only the first candidate votes. `current` voters are
    preferred: the order of candidates changes with each owner, and a change of voters that coincides with the loss of
    nodes can leave the address without a majority.
    """
    named = {node.name for node in able}
    able = sorted(able, key=lambda node: node.name not in current)
    others = [node for node in nodes if node.ready and node.facts is not None and node.name not in named]
    others.sort(key=lambda node: (_place(offered, node.location) is None, node.name not in current, node.name))
    everybody = [*able, *others]
    if len(everybody) < 3:
        return tuple(able[:1])
    wanted = min(max(len(able), 3), MAX_VOTERS)
    if wanted % 2 == 0:
        wanted += 1 if len(everybody) > wanted else -1
    # An address that can move to another city must not need the votes of a lost city. An address with candidates in a
    # single city gets no voters elsewhere: the links between cities would be additional points of failure.
    several = len({node.city for node in able}) > 1
    return (_spread(everybody, wanted) if several else None) or tuple(everybody[:wanted])


def _spread(nodes: Sequence[NodeView], wanted: int) -> tuple[NodeView, ...] | None:
    """Return as many of the first nodes as possible, an odd number, without a majority in one city; else None."""
    for number in range(wanted, 1, -2):
        left = Counter({node.city: number // 2 for node in nodes})
        taken: list[NodeView] = []
        for node in nodes:
            if left[node.city] and len(taken) < number:
                left[node.city] -= 1
                taken.append(node)
        if len(taken) == number:
            return tuple(taken)
    return None


def next_voters(current: Sequence[str], wanted: Sequence[str], *, acknowledged: bool) -> list[str]:
    """Return the next set from the current towards the wanted voters: one more or one fewer at a time.

    A step is taken only after every candidate has acknowledged the previous set, so two sets in use at once differ by
    one voter and their majorities intersect.
    """
    if not current:
        return list(wanted)
    if not acknowledged:
        return list(current)
    new = next((each for each in wanted if each not in current), None)
    if new is not None:
        return [*current, new]
    old = next((each for each in current if each not in wanted), None)
    return [each for each in current if each != old] if old is not None else list(current)


def can_tunnel(one: NodeView, other: NodeView) -> bool:
    """Return True if two nodes may exchange egress packets: between cities encrypted, or `off` at both nodes."""
    if one.city == other.city:
        return True
    means = {node.facts.encryption if node.facts is not None else "none" for node in (one, other)}
    return means == {"off"} or not means & {"none", "off"}
