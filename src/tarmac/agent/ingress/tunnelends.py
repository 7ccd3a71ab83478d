"""The nodes that a node exchanges packets of public addresses with, and how."""

from __future__ import annotations

from collections.abc import Mapping, Set
from dataclasses import dataclass, field

from tarmac.agent.network.compiler.networkstate import is_address
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.datapath.egress import EncryptedPeer
from tarmac.datapath.ingress import MAX_NODES

_ENCRYPTING = ("kernel", "userspace")


@dataclass(frozen=True, slots=True)
class TunnelEnds:
    """The end of each node's tunnels, and its Location, by name; those of other Locations are reached encrypted."""

    addresses: Mapping[str, str]
    locations: Mapping[str, str] = field(default_factory=dict[str, str])
    encrypted: tuple[EncryptedPeer, ...] = ()


def tunnel_ends(
    node: str, address: str, location: str, endpoints: Mapping[str, TunnelEndpoint], concerned: Set[str]
) -> TunnelEnds:
    """Return the tunnel ends of the nodes of this node's Location, and of those of other Locations that can encrypt.

    There is a limit: nodes of this Location come first, then those in `concerned`, which have endpoints or may own
    addresses.
    """
    own = endpoints.get(node)
    able = own is not None and _encrypts(own)
    found: dict[str, str] = {}
    for name, each in sorted(endpoints.items()):
        end = _end(each, ":" in address)
        reached = each.location == location or (able and _encrypts(each))
        # Two nodes that claim one address: the first by name has it, as in all other compilations.
        if end and end != address and reached and end not in found.values() and name != node:
            found[name] = end

    def order(name: str) -> tuple[bool, bool, str]:
        return endpoints[name].location != location, name not in concerned, name

    kept = {name: found[name] for name in sorted(found, key=order)[:MAX_NODES]}
    far = [name for name in kept if endpoints[name].location != location]
    return TunnelEnds(
        kept | {node: address},
        {name: endpoints[name].location for name in kept} | {node: location},
        tuple(sorted(EncryptedPeer(kept[name], endpoints[name].public_key) for name in far)),
    )


def _encrypts(endpoint: TunnelEndpoint) -> bool:
    return endpoint.encryption in _ENCRYPTING and bool(endpoint.public_key)


def _end(endpoint: TunnelEndpoint, six: bool) -> str:
    return next((one for one in endpoint.addresses if (":" in one) == six and is_address(one)), "")
