"""Status of AddressPools (use, readiness, redundancy) and of BGPPeers (sessions)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from ipaddress import ip_address

from tarmac.api.egress.addressrules import bounds_of
from tarmac.api.ingress.addresspool import AddressPool, PoolSummary, announcement
from tarmac.api.ingress.bgppeer import BGPPeer, PeerNode
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.decide import reasons
from tarmac.decide.ingress.announcing import gateways
from tarmac.decide.ingress.binding import holders, phase_of
from tarmac.decide.ingress.selecting import has_session, is_announced_to
from tarmac.decide.pooled.candidates import outside_interface
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.pooled.pool import RESTING
from tarmac.decide.pooled.ranges import MAX_COUNTED, Ranges
from tarmac.decide.rollup.conditions import Finding
from tarmac.decide.verdict import Refusal

ESTABLISHED = "Established"
MISSING = reasons.SPEAKER_MISSING
"""States of a session: routes are exchanged; the node has no program for it."""

_MAX_NAMED = 3


def is_in_use(addresses: Iterable[PublicAddress]) -> bool:
    """Return True if addresses of a pool are held, released or resting."""
    return any(holders(each) or phase_of(each) in RESTING for each in addresses)


def pool_summary(pool: AddressPool, ranges: Ranges, addresses: Sequence[PublicAddress]) -> PoolSummary:
    """Count the addresses of a pool by state."""
    resting = sum(phase_of(each) in RESTING for each in addresses)
    bound = sum(bool(holders(each)) and phase_of(each) not in RESTING for each in addresses)
    total = sum(ranges.size(family) for family in {bounds_of(each).family for each in pool.spec.ranges})
    return PoolSummary(bound, min(max(0, total - bound - resting), MAX_COUNTED), resting)


def established(peer: BGPPeer, nodes: Mapping[str, NodeView]) -> list[NodeView]:
    """Return the Ready nodes that have an established session with a peer, and should have one."""
    names = [each.name for each in (peer.status.nodes if peer.status is not None else ()) if each.state == ESTABLISHED]
    found = (nodes.get(name) for name in names)
    return [node for node in found if node is not None and node.ready and has_session(peer.spec, node.labels)]


def speakers(pool: AddressPool, peers: Iterable[BGPPeer], nodes: Mapping[str, NodeView]) -> set[str]:
    """Return the gateways of a pool that can announce its addresses to a peer now."""
    able = {node.name for node in gateways(pool, nodes.values())}
    mine = (peer for peer in peers if is_announced_to(pool.metadata.name, pool.spec, peer.spec))
    return able & {node.name for peer in mine for node in established(peer, nodes)}


def pool_findings(
    pool: AddressPool, overlap: Refusal | None, peers: Sequence[BGPPeer], nodes: Mapping[str, NodeView]
) -> list[Finding]:
    """Return `Ready` (a node can announce its addresses) and `Redundant` (two can)."""
    able = gateways(pool, nodes.values())
    refusal = overlap
    if refusal is None and not able:
        refusal = Refusal(reasons.NO_GATEWAY, "No Ready node is chosen by locations and gatewaySelector.")
    if announcement(pool.spec) == "bgp":
        names = speakers(pool, peers, nodes)
        if refusal is None and not names:
            refusal = _without_session(pool, peers, {node.name for node in able})
    else:
        first = pool.spec.ranges[0]
        address = ip_address(first.start or first.cidr.partition("/")[0])
        names = {node.name for node in able if outside_interface(node.facts, pool.spec, address) is not None}
        if refusal is None and not names:
            refusal = Refusal(reasons.NO_OUTSIDE_INTERFACE, "No gateway has an interface on the addresses' segment.")
    if refusal is not None:
        return [
            Finding("Ready", "False", refusal.reason, refusal.message),
            Finding("Redundant", "False", refusal.reason, refusal.message),
        ]
    ready = Finding("Ready", "True", reasons.ANNOUNCED, f"{len(names)} nodes can announce its addresses.")
    if len(names) > 1:
        return [ready, Finding("Redundant", "True", reasons.REDUNDANT, "The loss of a gateway is survived.")]
    return [ready, Finding("Redundant", "False", reasons.NO_GATEWAY, "Only one node can announce its addresses.")]


def _without_session(pool: AddressPool, peers: Iterable[BGPPeer], able: Set[str]) -> Refusal:
    """Return the reason why no gateway of a pool has a session."""
    mine = [peer for peer in peers if is_announced_to(pool.metadata.name, pool.spec, peer.spec)]
    missing = {name for peer in mine for name in _without_speaker(peer)} & able
    if missing:
        return _speaker_missing(sorted(missing))
    return Refusal(reasons.NO_PEER, "No gateway has an established session with a BGPPeer of the pool.")


def _without_speaker(peer: BGPPeer) -> list[str]:
    """Return the nodes that say that they have no speaker."""
    return [each.name for each in (peer.status.nodes if peer.status is not None else ()) if each.state == MISSING]


def _speaker_missing(names: Sequence[str]) -> Refusal:
    return Refusal(
        reasons.SPEAKER_MISSING, f"{_some(names)} has no bird.", "Install bird2 there, and restart the agent."
    )


def _some(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_NAMED} more" if len(names) > _MAX_NAMED else ""
    return ", ".join(names[:_MAX_NAMED]) + more


def peer_finding(peer: BGPPeer, nodes: Mapping[str, NodeView]) -> Finding:
    """Return the condition `Established` of a peer: all nodes that should have a session have one."""
    wanted = sorted(node.name for node in nodes.values() if node.ready and has_session(peer.spec, node.labels))
    if not wanted:
        message = "No Ready node is chosen by locations and nodeSelector."
        return Finding("Established", "False", reasons.NO_GATEWAY, message)
    present = {node.name for node in established(peer, nodes)}
    missing = [name for name in wanted if name not in present]
    if unable := sorted({*missing} & {*_without_speaker(peer)}):
        refusal = _speaker_missing(unable)
        return Finding("Established", "False", refusal.reason, f"{refusal.message} {refusal.change}")
    if missing:
        message = f"{_some(missing)} has no established session."
        return Finding("Established", "False", reasons.SESSION_DOWN, message)
    return Finding("Established", "True", reasons.ANNOUNCED, f"{len(wanted)} nodes have a session.")


def current_sessions(peer: BGPPeer, nodes: Mapping[str, NodeView]) -> list[PeerNode]:
    """Return the entries of nodes that still exist and should have a session."""
    reports = peer.status.nodes if peer.status is not None else []
    return [each for each in reports if (node := nodes.get(each.name)) and has_session(peer.spec, node.labels)]
