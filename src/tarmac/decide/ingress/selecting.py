"""Selection of nodes by AddressPools (gateways) and BGPPeers (sessions), from their Locations and labels."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from tarmac.api.egress.names import LABEL_GATEWAY
from tarmac.api.ingress.addresspool import AddressPoolSpec, announcement
from tarmac.api.ingress.bgppeer import BGPPeerSpec
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.shared import LabelSelector
from tarmac.decide.pooled.permissions import selects

_GATEWAY: Final = "true"

Labels = Mapping[str, str]


def is_gateway(pool: AddressPoolSpec, labels: Labels) -> bool:
    """Return True if a node with these labels may announce the addresses of a pool."""
    return _is_selected(pool.locations, pool.gateway_selector, labels)


def has_session(peer: BGPPeerSpec, labels: Labels) -> bool:
    """Return True if a node with these labels has a session with a peer."""
    return _is_selected(peer.locations, peer.node_selector, labels)


def is_announced_to(pool_name: str, pool: AddressPoolSpec, peer: BGPPeerSpec) -> bool:
    """Return True if the addresses of a pool are announced to a peer."""
    return announcement(pool) == "bgp" and (not peer.pools or pool_name in peer.pools)


def _is_selected(locations: Sequence[str], selector: LabelSelector | None, labels: Labels) -> bool:
    if locations and labels.get(LABEL_LOCATION, "") not in locations:
        return False
    # Nodes cannot set the default label themselves; for others, admission warns.
    return selects(selector, labels) if selector is not None else labels.get(LABEL_GATEWAY) == _GATEWAY
