"""Which nodes this one speaks with encrypted: those of other cities that have a part in the same external services.

Nodes do not read each other's Nodes. Gateways say in which city each node is, this one too, and what its key is. A node
of which they say nothing, or not all the same, is closed: nothing goes to it and nothing is taken from it. So whoever
claims another's address takes nothing over with it.
"""

from __future__ import annotations

from collections.abc import Iterable

from tarmac.api.submariner.relays import Gateway
from tarmac.datapath.external import ExternalState, TunnelPeer


def tunnel_peers(node: str, state: ExternalState, gateways: Iterable[Gateway]) -> tuple[TunnelPeer, ...]:
    """The nodes that a state leads to or lets in, but for those of which all say that they are in this node's city."""
    others = _other_nodes(state)
    if not others:
        return ()
    said: dict[str, set[TunnelPeer | None]] = {}  # None: in this node's city
    for gateway in gateways:
        named = {each.name: each for each in (*gateway.spec.candidates, *gateway.spec.senders)}
        for each in named.values() if node in named else ():
            is_near = each.city == named[node].city
            said.setdefault(each.address, set()).add(None if is_near else TunnelPeer(each.address, each.public_key))
    found = {address: said.get(address, set()) for address in sorted(others)}
    agreed = {address: next(iter(of)) if len(of) == 1 else TunnelPeer(address) for address, of in found.items()}
    return tuple(each for each in agreed.values() if each is not None)


def _other_nodes(state: ExternalState) -> set[str]:
    """The addresses of all other nodes that packets of a state may come from or go to."""
    used = {way.source for each in state.forwardings for way in each.ways}
    found = {
        node
        for each in state.sources
        if each.outside is not None or each.address in used
        for node in (*each.candidates, *(way.node for way in (*each.exits, *each.entrances)))
    }
    return (found | {state.partner}) - {state.node_address, ""}
