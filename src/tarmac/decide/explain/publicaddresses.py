"""Explains PublicAddresses, AddressPools and BGPPeers: holder, gateways, announcements, free addresses, sessions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from ipaddress import ip_address

from tarmac.api.compute.explanations import Explanation, ExplanationLine, Subject
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.bgppeer import BGPPeer
from tarmac.api.ingress.names import API_VERSION
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.decide import reasons
from tarmac.decide.egress.reading import node_addresses, node_view
from tarmac.decide.explain.answer import explanation, finding_line, refusal_line, yes
from tarmac.decide.explain.services import address_lines
from tarmac.decide.ingress.binding import holders, phase_of, range_owner
from tarmac.decide.ingress.pools import ESTABLISHED, peer_finding, pool_findings, pool_summary
from tarmac.decide.ingress.selecting import has_session
from tarmac.decide.ingressworld import class_owners, nodes_of
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.pooled.overlap import overlapped_by_older
from tarmac.decide.pooled.pool import RESTING
from tarmac.decide.pooled.ranges import Ranges
from tarmac.decide.snapshot.ingressobjects import ADDRESS_POOLS, BGP_PEERS, PUBLIC_ADDRESSES
from tarmac.decide.snapshot.snapshot import NODES, Snapshot
from tarmac.decide.verdict import Refusal


def explain_public_address(snapshot: Snapshot, name: str) -> Explanation | None:
    """Return the explanation of an address; None when it has no object."""
    address = PUBLIC_ADDRESSES.get(snapshot, name)
    if address is None:
        return None
    pool = ADDRESS_POOLS.get(snapshot, address.spec.pool_name)
    lines = [*_pool_lines(address, pool), *_holder_lines(address)]
    if pool is not None and holders(address) and phase_of(address) not in RESTING:
        lines += address_lines(address, pool, nodes_of(snapshot))
    return explanation(Subject(API_VERSION, "PublicAddress", "", name), f"is {phase_of(address) or 'new'}", lines)


def _pool_lines(address: PublicAddress, pool: AddressPool | None) -> Iterator[ExplanationLine]:
    name = address.spec.pool_name
    if pool is None:
        message, change = f"AddressPool {name} does not exist.", "Create it again, or delete the holder."
        yield refusal_line(Refusal(reasons.POOL_NOT_FOUND, message, rule="pool", change=change))
    elif not Ranges(pool.spec).hold(ip_address(address.spec.address)):
        message, change = f"No range of AddressPool {name} holds it.", "Put the range back."
        yield refusal_line(Refusal(reasons.POOL_NOT_FOUND, message, rule="pool", change=change))


def _holder_lines(address: PublicAddress) -> Iterator[ExplanationLine]:
    status, resting = address.status, phase_of(address) in RESTING
    if resting:
        last = status.last_claim if status is not None else None
        whose = f" of {last.kind} {last.namespace}/{last.name}" if last is not None else ""
        until = f" until {status.quarantined_until}" if status is not None and status.quarantined_until else ""
        message = f"It was that{whose} and rests{until}" if whose else f"It rests{until}"
        yield refusal_line(Refusal(reasons.ADDRESS_QUARANTINED, message, rule="holder"))
        return
    for each in holders(address):
        named = f"{each.kind} {each.namespace}/{each.name}" if each.name else f"namespace {each.namespace}"
        held = "is held by" if each.uid else "is reserved for"
        yield yes(reasons.ADDRESS_BOUND, f"It {held} {named}", "holder")


def explain_address_pool(snapshot: Snapshot, name: str) -> Explanation | None:
    """Return the explanation of a pool; None when it does not exist."""
    pool = ADDRESS_POOLS.get(snapshot, name)
    if pool is None:
        return None
    nodes = nodes_of(snapshot)
    others = [*(range_owner(each) for each in ADDRESS_POOLS.all(snapshot)), *class_owners(snapshot)]
    findings = pool_findings(pool, overlapped_by_older(range_owner(pool), others), list(BGP_PEERS.all(snapshot)), nodes)
    lines = [finding_line(each) for each in findings] + [_use_line(snapshot, pool), *_permission_lines(pool)]
    state = "can be used" if findings[0].holds else "cannot be used"
    return explanation(Subject(API_VERSION, "AddressPool", "", name), state, lines)


def _use_line(snapshot: Snapshot, pool: AddressPool) -> ExplanationLine:
    name = pool.metadata.name
    taken = {each for node in NODES.all(snapshot) for each in node_addresses(node, node_view(node))}
    mine = [each for each in PUBLIC_ADDRESSES.all(snapshot) if each.spec.pool_name == name]
    use = pool_summary(pool, Ranges(pool.spec, taken), mine)
    counted = f"{use.available} addresses are free, {use.bound} are held, {use.resting} rest"
    if use.available:
        return yes(reasons.ADDRESS_BOUND, counted, "addresses")
    change = f"Add a range to AddressPool {name}."
    return refusal_line(Refusal(reasons.POOL_EXHAUSTED, counted, rule="addresses", change=change))


def _permission_lines(pool: AddressPool) -> Iterator[ExplanationLine]:
    allowed = pool.spec.allowed_namespaces
    if allowed is None or not (allowed.names or allowed.selector):
        message, change = "No namespace may use it", "Set spec.allowedNamespaces."
        yield refusal_line(Refusal(reasons.NOT_AUTHORIZED, message, rule="namespaces", change=change))


def explain_bgp_peer(snapshot: Snapshot, name: str) -> Explanation | None:
    """Return the explanation of a peer; None when it does not exist."""
    peer = BGP_PEERS.get(snapshot, name)
    if peer is None:
        return None
    nodes = nodes_of(snapshot)
    finding = peer_finding(peer, nodes)
    lines = [finding_line(finding), *_session_lines(peer, nodes)]
    state = "has all sessions" if finding.holds else "lacks sessions"
    return explanation(Subject(API_VERSION, "BGPPeer", "", name), state, lines)


def _session_lines(peer: BGPPeer, nodes: Mapping[str, NodeView]) -> Iterator[ExplanationLine]:
    """Yield a line for each node that should have a session."""
    reports = {each.name: each for each in (peer.status.nodes if peer.status is not None else ())}
    for node in sorted(nodes.values(), key=lambda each: each.name):
        if not has_session(peer.spec, node.labels):
            continue
        entry = reports.get(node.name)
        if entry is not None and entry.state == ESTABLISHED:
            since = f" since {entry.since}" if entry.since else ""
            message = f"{node.name} has a session{since} and announces {entry.announced} addresses"
            yield yes(reasons.ANNOUNCED, message, "session", node.city, node.name)
            continue
        error = f": {entry.last_error}" if entry is not None and entry.last_error else ""
        known = entry.state if entry is not None and entry.state in reasons.CATALOGUE else reasons.SESSION_DOWN
        yield refusal_line(Refusal(known, f"{node.name} has no session{error}.", rule="session"), node.city, node.name)
