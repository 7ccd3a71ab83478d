"""The nodes of an address's lease: its candidates, its voters, and former candidates that may not know it yet.

Agents do not read other Nodes: they learn the addresses and keys of peers from the object of the address. Each entry is
taken from the peer's own Node, looked up by name, never by an address that a different node could claim too.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from typing import NamedTuple

from tarmac.api.egress.forwarding import GatewayNode
from tarmac.decide.pooled.nodeview import NodeView

MAX_VOTERS = 5


class Members(NamedTuple):
    """The nodes of a lease. `leaving` were candidates and have not acknowledged that they are none."""

    candidates: Sequence[GatewayNode] = ()
    voters: Sequence[GatewayNode] = ()
    leaving: Sequence[GatewayNode] = ()


def next_members(
    before: Members,
    acknowledging: Set[str],
    able: Sequence[NodeView],
    nodes: Iterable[NodeView],
    wanted_voters: Callable[[Collection[str]], Sequence[NodeView]],
    partners: Mapping[str, str] | None = None,
) -> Members:
    """Return the next members. `acknowledging` are the nodes that have applied the newest generation of `before`.

    If no node is able to carry the address, the previous candidates stay: an unreachable node may still be the owner.
    Voters change by one step towards the wanted set, and only after all candidates, including former ones, have
    acknowledged the last step: an isolated node keeps using the voters it knows. Deleting its Node ends the wait.
    """
    every, pairs = {node.name: node for node in nodes}, partners or {}
    current = [each.name for each in before.voters]
    wanted = [node.name for node in wanted_voters(current)] if able else []
    settled = bool(able) and is_acknowledged(before, acknowledging, every)
    chosen = next_voters(current, wanted, acknowledged=settled)
    old = {each.name: each for each in before.voters}
    stay = [gateway_node(every[each.name]) if each.name in every else each for each in before.candidates]
    candidates = [gateway_node(node, pairs.get(node.name, "")) for node in able] or stay
    return Members(
        candidates,
        [gateway_node(every[name]) if name in every else old[name] for name in chosen],
        _leaving(before, acknowledging, {each.name for each in candidates}, every),
    )


def resigned(before: Members, acknowledging: Set[str], nodes: Iterable[NodeView]) -> Members:
    """Return the members of an address that no node may own any more.

    Its voters stay: later ones that share no majority with them could elect a second owner.
    """
    every = {node.name: node for node in nodes}
    return Members((), before.voters, _leaving(before, acknowledging, set(), every))


def is_acknowledged(members: Members, acknowledging: Set[str], nodes: Iterable[str]) -> bool:
    """Return True if every existing current or leaving candidate has applied the newest generation."""
    there = set(nodes)
    return {each.name for each in (*members.candidates, *members.leaving)} & there <= acknowledging


def gateway_node(node: NodeView, partner: str = "") -> GatewayNode:
    """Return the entry of a node."""
    key = node.facts.public_key if node.facts is not None else ""
    return GatewayNode(node.name, node.address, node.city, key, partner)


def voters(
    is_near: Callable[[NodeView], bool],
    able: Sequence[NodeView],
    nodes: Iterable[NodeView],
    current: Collection[str] = (),
) -> tuple[NodeView, ...]:
    """Return an address's voters: its candidates, filled up to three with other nodes; an odd number, at most five.

    With fewer than three nodes no majority survives a loss, so only the first candidate votes. `current` voters are
    preferred: the order of candidates changes with each owner, and a change of voters that coincides with the loss of
    nodes can leave the address without a majority. `is_near`: the address is routable at the node's Location.
    """
    named = {node.name for node in able}
    able = sorted(able, key=lambda node: node.name not in current)
    others = [node for node in nodes if node.ready and node.facts is not None and node.name not in named]
    others.sort(key=lambda node: (not is_near(node), node.name not in current, node.name))
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


def _leaving(
    before: Members, acknowledging: Set[str], candidates: Set[str], every: Mapping[str, NodeView]
) -> list[GatewayNode]:
    """Return the former candidates that have not acknowledged their removal yet, sorted by name."""
    acknowledged = {each.name for each in before.leaving} & acknowledging
    were = {each.name for each in (*before.candidates, *before.leaving)}
    return [gateway_node(every[name]) for name in sorted((were - candidates - acknowledged) & every.keys())]
