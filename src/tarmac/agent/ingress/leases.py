"""Lease configuration of public addresses, and the datapath calls that leases make for them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Final

from tarmac.agent.egress.leases.addressconfig import AddressConfig, PeerIdentity, read_key
from tarmac.api.egress.forwarding import GatewayNode
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.datapath.ingress import IngressDatapath

PURPOSE: Final = b"public addresses"
"""Of their conversations: a datagram about SourceIPs means nothing here, though the nodes' keys are the same."""


class IngressLeaseKernel:
    """The calls of leases to the datapath. Where an owner is matters to its gateways only: packets find it outside."""

    def __init__(self, datapath: IngressDatapath) -> None:
        self._datapath = datapath

    def follow(self, owners: Mapping[str, str]) -> None:
        """Do nothing: no node routes its packets to the owner."""

    def carry(self, seconds: Mapping[str, float]) -> None:
        """Serve addresses for so many seconds."""
        self._datapath.carry(seconds)

    def drop(self, addresses: Sequence[str]) -> None:
        """Stop serving addresses."""
        self._datapath.drop(addresses)

    def announce(self, addresses: Sequence[str]) -> None:
        """Announce addresses on their segments."""
        self._datapath.announce(addresses)

    def probe(self, address: str) -> str:
        """Return the hardware address of a foreign host that uses an address; empty if none answers."""
        return self._datapath.probe(address)


def lease_configs(node: str, addresses: Iterable[PublicAddress], can_own: Set[str]) -> dict[str, AddressConfig]:
    """Return the leases that concern a node: of addresses that it may own, or that it votes on.

    Candidates and voters come from the object alone. Nodes that derived voters by themselves could disagree about them,
    and two disjoint majorities would each elect an owner.
    """
    return {
        each.spec.address: AddressConfig(
            address=each.spec.address,
            candidates=_identities(each.spec.candidates),
            voters=_identities(each.spec.voters),
            can_own=each.spec.address in can_own,
        )
        for each in addresses
        if any(own.name == node for own in (*each.spec.candidates, *each.spec.voters))
    }


def _identities(nodes: Iterable[GatewayNode]) -> dict[str, PeerIdentity]:
    return {each.name: PeerIdentity(each.address, read_key(each.public_key)) for each in nodes}
