"""Selects the packets of instances that this node encrypts, by Networks and the Locations of nodes.

A node without a known endpoint, or with an address that several nodes claim, is closed to Networks that request
encryption. A node with an agent older than encryption can neither send nor receive encrypted packets: between Locations
it is reached in plaintext as before, until its agent is upgraded; a Network that is always encrypted does not reach it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from tarmac.api.networking.network import Encryption, Network
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.datapath.egress import EncryptedPeer, InstanceTunnels
from tarmac.datapath.interface import NetworkState

Endpoints = Mapping[str, TunnelEndpoint]


def instance_tunnels(
    node: str, states: Sequence[NetworkState], networks: Mapping[str, Network], endpoints: Endpoints
) -> InstanceTunnels:
    """Return the tunnels of a node with these networks."""
    numbered = [each for each in states if each.vni]
    always = frozenset(each.vni for each in numbered if _asks(networks.get(each.name)) == "Always")
    between = frozenset(each.vni for each in numbered if _asks(networks.get(each.name)) == "BetweenLocations")
    if not always | between:
        return InstanceTunnels()
    known = _by_address(endpoints)
    own = endpoints.get(node)
    location = own.location if own is not None else ""
    remotes = {remote.node_address for each in numbered for remote in each.remotes}
    plain = frozenset(each for each in remotes if each in known and _is_plain(known[each], location))
    made = InstanceTunnels(always, between, plain)
    reached = {
        remote.node_address
        for each in numbered
        for remote in each.remotes
        if made.encrypts(each.vni, remote.node_address)
    }
    keys = {each: known[each].public_key if each in known else "" for each in reached}
    return InstanceTunnels(always, between, plain, tuple(EncryptedPeer(*each) for each in sorted(keys.items())))


def keyless(tunnels: InstanceTunnels, endpoints: Endpoints) -> list[str]:
    """Return the nodes, by name or else by address, that require encryption and have no key."""
    names = {address: name for name, each in endpoints.items() for address in each.addresses}
    return sorted(names.get(each.address, each.address) for each in tunnels.peers if not each.public_key)


def _asks(network: Network | None) -> Encryption:
    return network.spec.encryption if network is not None else "BetweenLocations"


def _is_plain(endpoint: TunnelEndpoint, location: str) -> bool:
    return not endpoint.encryption or (endpoint.location == location != "")


def _by_address(endpoints: Endpoints) -> dict[str, TunnelEndpoint]:
    """Return the only node that has each address. The server rejects a second claim; if one exists, no node has it."""
    claims = Counter(address for each in endpoints.values() for address in each.addresses)
    return {address: each for each in endpoints.values() for address in each.addresses if claims[address] == 1}
