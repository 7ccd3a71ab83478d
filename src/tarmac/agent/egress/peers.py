"""Peers of the encrypted tunnel: nodes of other cities that take part in the same external services.

Nodes cannot read each other's Node objects. Gateways state the city and the key of each node, this one included. A node
without such a statement, or with contradicting ones, is closed: no packet is sent to it or accepted from it. So a node
that claims a peer's address gains nothing.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.api.egress.forwarding import Gateway
from tarmac.datapath.egress import EgressState, EncryptedPeer


def tunnel_peers(node: str, state: EgressState, gateways: Iterable[Gateway]) -> tuple[EncryptedPeer, ...]:
    """Return the nodes that a state sends to or accepts, except those that all Gateways place in this node's city."""
    others = _other_nodes(state)
    if not others:
        return ()
    said: dict[str, set[EncryptedPeer | None]] = {}  # None: in this node's city
    for gateway in gateways:
        named = {each.name: each for each in (*gateway.spec.candidates, *gateway.spec.senders)}
        for each in named.values() if node in named else ():
            is_near = each.city == named[node].city
            said.setdefault(each.address, set()).add(None if is_near else EncryptedPeer(each.address, each.public_key))
    found = {address: said.get(address, set()) for address in sorted(others)}
    agreed = {address: next(iter(of)) if len(of) == 1 else EncryptedPeer(address) for address, of in found.items()}
    return tuple(each for each in agreed.values() if each is not None)


def _other_nodes(state: EgressState) -> set[str]:
    """Return the addresses of all other nodes that packets of a state may come from or go to."""
    used = {way.source for each in state.forwardings for way in each.ways}
    found = {
        node
        for each in state.sources
        if each.outside is not None or each.address in used
        for node in (*each.candidates, *(way.node for way in (*each.exits, *each.entrances)))
    }
    return (found | {state.partner}) - {state.node_address, ""}
