"""Desired state of public addresses on a node: open ports, the nodes with endpoints, and the endpoints here.

A packet keeps its client and its public address from outside to the Network of the instance, which alone translates.
So instances and their policies see the client. A gateway chooses the node of a connection by a hash of the client and
remembers the choice; a connection that moves to another gateway gets the same node. Answers leave through the gateway
that the client's last packet came by. Every node is a gateway for connections from inside.

A gateway may send with an address on a segment outside only for a limited time: its owner renews it again and again
(`carry`), and the kernel stops by itself without renewal.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address, ip_network
from typing import Protocol

from tarmac.datapath.egress import EncryptedPeer, OutsideLink, Transport
from tarmac.datapath.speaker import Speaker

MAX_NODES = 255
"""Nodes that packets of public addresses are exchanged with, per node."""


@dataclass(frozen=True, slots=True, order=True)
class LocalBackend:
    """A pod on this node, its address on a Network, and the port that it listens on."""

    network: str  # namespace/name
    address: str
    port: int


@dataclass(frozen=True, slots=True)
class OpenPort:
    """A port of a public address.

    `nodes` are the nodes with endpoints, this one included, and the number of endpoints there. `clients` are the
    permitted ranges of the address's family; None permits all. `affinity`: the client's port does not count.
    """

    protocol: Transport
    port: int
    nodes: tuple[tuple[str, int], ...] = ()
    backends: tuple[LocalBackend, ...] = ()
    clients: tuple[str, ...] | None = None
    affinity: bool = False

    def admits(self, client: str) -> bool:
        """Return True if the ranges let a client in."""
        own = ip_address(client)
        return self.clients is None or any(own in ip_network(each) for each in self.clients)


@dataclass(frozen=True, slots=True)
class IngressAddress:
    """One public address. `answerers` are nodes whose answers are accepted: also those with draining endpoints only.

    `routed`: routers outside may send its packets to this node, which forwards them. `new_per_second` and
    `connections` limit what this node lets in from clients outside; None sets no limit.
    """

    address: str
    ports: tuple[OpenPort, ...] = ()
    answerers: tuple[str, ...] = ()
    outside: OutsideLink | None = None  # its segment, if this node may own it
    routed: bool = False
    new_per_second: int | None = None
    connections: int | None = None


@dataclass(frozen=True, slots=True)
class IngressState:
    """The whole desired state of public addresses on a node.

    `ranges` are those of all pools: the node's own packets to them never leave by another route. `peers` are the nodes
    that may send packets of clients here; those in `encrypted` too, and only through the encrypted link. `networks` has
    the ranges of each Network with endpoints here, draining ones included: a client with such an address would be taken
    for an instance, and gets the address that represents the node.
    """

    node_address: str
    addresses: tuple[IngressAddress, ...] = ()
    ranges: tuple[str, ...] = ()
    peers: tuple[str, ...] = ()
    networks: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    encrypted: tuple[EncryptedPeer, ...] = ()

    @property
    def empty(self) -> bool:
        """True if the node has no part in public addresses."""
        return not self.addresses and not self.ranges


class IngressDatapath(Protocol):
    """Implements public addresses on one node. `speaker` announces those that are routed.

    Methods that are not coroutines may block for a moment, and are called from the lease thread only.
    """

    @property
    def speaker(self) -> Speaker: ...

    async def apply(self, state: IngressState) -> Mapping[str, Exception]:
        """Make the node match the state; return failures by address.

        A failed address is left out, all remaining ones work. An OSError means that the node could not, and may later.
        Connections that exist keep their node and their pod, except datagrams to pods that are no backends any more.
        """
        ...

    async def mend(self) -> Sequence[str]:
        """Repair changes by other programs since the last call; return the repaired parts. Cheap if there are none."""
        ...

    def carry(self, seconds: Mapping[str, float]) -> None:
        """Serve addresses for so many seconds from now; no packet with them leaves this node later than that."""
        ...

    def drop(self, addresses: Sequence[str]) -> None:
        """Stop serving addresses. No packet with them leaves this node after this has returned."""
        ...

    def announce(self, addresses: Sequence[str]) -> None:
        """Announce addresses on their segments if this node serves them at this moment."""
        ...

    def carried(self) -> Mapping[str, float]:
        """Return the live addresses of this node with their remaining seconds, also from an earlier process."""
        ...

    def probe(self, address: str) -> str:
        """Return the hardware address of a foreign host that uses an address; empty if none answers."""
        ...

    async def connect(self, address: str, port: int, timeout: float) -> None:
        """Open a TCP connection of the node itself to a public address, and close it. Raises OSError."""
        ...

    async def remove(self) -> None:
        """Remove everything."""
        ...
