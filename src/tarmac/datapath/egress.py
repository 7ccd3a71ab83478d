"""Desired state of external services on a node: permitted connections, their addresses, and the gateways.

A connection of a pod leaves with a SourceIP that one gateway owns. Pods' addresses mean nothing outside their Network,
so between nodes it uses a transit address, which identifies one ExternalService, node, Network and SourceIP. A pod's
node knows pods and transit addresses (`Forwarding`), a gateway transit addresses and the outside (`SourceAddress`).

A gateway may send with an address only for a limited time: the owner renews it again and again (`carry`), and the
kernel stops by itself without renewal.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal, Protocol

Transport = Literal["TCP", "UDP", "SCTP"]
Means = Literal["kernel", "userspace", "none"]
"""Available means of encrypting tunnels between cities: the kernel's driver, a program, or none."""


@dataclass(frozen=True, slots=True, order=True)
class Departure:
    """A pod may dial an address and port, which is translated to a server outside."""

    network: str  # namespace/name
    pod: str  # its address there
    dialled: str
    protocol: Transport
    port: int
    target: str
    target_port: int
    transit: str
    source: str  # the SourceIP


@dataclass(frozen=True, slots=True, order=True)
class Arrival:
    """The server outside may connect to a port, served by a pod. `affinity`: the client's port does not count."""

    network: str
    target: str
    transit: str
    protocol: Transport
    port: int
    endpoint: tuple[str, int]
    source: str
    affinity: bool = False


@dataclass(frozen=True, slots=True)
class Forwarding:
    """One ExternalService on the node of its pods. No two have the same dialled address or transit address."""

    name: str  # namespace/name
    departures: tuple[Departure, ...] = ()
    arrivals: tuple[Arrival, ...] = ()

    @property
    def ways(self) -> tuple[Departure | Arrival, ...]:
        """All departures and arrivals."""
        return *self.departures, *self.arrivals

    @property
    def networks(self) -> Set[str]:
        """The Networks of its pods."""
        return {way.network for way in self.ways}


@dataclass(frozen=True, slots=True, order=True)
class Exit:
    """Packets with a transit address from a node may go to a server outside."""

    transit: str
    node: str  # the end of its tunnels
    target: str
    protocol: Transport
    port: int
    service: str = ""  # the ExternalService of the transit address, for metrics


@dataclass(frozen=True, slots=True, order=True)
class Entrance:
    """Connections from a server outside to a port go to one of the nodes, in proportion to their weights."""

    target: str
    protocol: Transport
    port: int
    transit: str
    node: str
    weight: int = 1
    affinity: bool = False
    service: str = ""


@dataclass(frozen=True, slots=True)
class OutsideLink:
    """Location of an address: an interface of the node, the segment behind it, and the router there, if any."""

    interface: str
    segment: str  # CIDR
    gateway: str = ""
    virtual: bool = False
    """The address has its own hardware address, the same on every owner."""


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """One SourceIP. Only nodes that may own it have `outside`, `exits` and `entrances`."""

    address: str
    mark: int  # the same on all nodes, 1 to 65535
    candidates: tuple[str, ...]  # addresses of the nodes that may own it
    outside: OutsideLink | None = None
    exits: tuple[Exit, ...] = ()
    entrances: tuple[Entrance, ...] = ()
    connections: int | None = None  # maximum at a time
    out_rate: int | None = None  # bits per second
    in_rate: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class EncryptedPeer:
    """A node in another city, reached only encrypted. Without its key no packet passes."""

    address: str  # the end of its tunnels
    public_key: str = ""  # X25519, in base64


@dataclass(frozen=True, slots=True)
class InstanceTunnels:
    """Selects the packets of instances that are encrypted between nodes, by the number of their Network.

    All packets of Networks in `always`; of those in `between`, packets to nodes that are not in `plain`. Without a peer
    of that address, or its key, nothing is sent there.
    """

    always: frozenset[int] = frozenset()
    between: frozenset[int] = frozenset()
    plain: frozenset[str] = frozenset()
    peers: tuple[EncryptedPeer, ...] = ()

    @property
    def numbers(self) -> frozenset[int]:
        """Numbers of all Networks that request encryption."""
        return self.always | self.between

    def encrypts(self, number: int, address: str) -> bool:
        """Return True if packets of a Network to a node are encrypted."""
        return number in self.always or (number in self.between and address not in self.plain)


@dataclass(frozen=True, slots=True)
class ServiceTraffic:
    """Traffic of one address for one ExternalService, in connections that the same side began.

    `live` are those that the kernel tracks for an address that this node owns. Bytes are those of packets, in both
    directions. Neither `connections` nor `bytes` ever decreases, even if rules are deleted.
    """

    service: str  # namespace/name
    source: str
    inward: bool  # the server outside began them
    live: int
    connections: int
    bytes: int


@dataclass(frozen=True, slots=True)
class GatewayTraffic:
    """Traffic of a gateway; and for each address that it owns now, the used share of its ports.

    An address has a fixed number of ports towards each port of a server: the fullest counts, 1 is full.
    """

    traffic: tuple[ServiceTraffic, ...] = ()
    port_use: Mapping[str, float] = field(default_factory=dict[str, float])


EndPoint = tuple[str, int]
"""An address and a port at one end of a connection."""


@dataclass(frozen=True, slots=True)
class TranslatedConnection:
    """A connection with translated addresses, as a namespace tracks it.

    `source` is the client, `meant` the address it dialled, `answerer` the server, and `seen` the client as the server
    sees it. Bytes are counted from the client and back; `since` is in Unix seconds, 0 if unknown.
    """

    protocol: str
    source: EndPoint
    meant: EndPoint
    answerer: EndPoint
    seen: EndPoint
    bytes_out: int = 0
    bytes_in: int = 0
    since: float = 0.0

    @property
    def ends(self) -> tuple[EndPoint, EndPoint, EndPoint, EndPoint]:
        """All four end points."""
        return self.source, self.meant, self.answerer, self.seen


@dataclass(frozen=True, slots=True)
class Translations:
    """Connections of pods of this node, between pod and transit address; and between transit address and SourceIP."""

    forwarded: Sequence[TranslatedConnection] = ()
    carried: Sequence[TranslatedConnection] = ()


@dataclass(frozen=True, slots=True)
class EgressState:
    """The whole desired state of external services on a node."""

    node_address: str
    forwardings: tuple[Forwarding, ...] = ()
    sources: tuple[SourceAddress, ...] = ()
    partner: str = ""  # address of the gateway that shares its connections with this one
    peers: tuple[EncryptedPeer, ...] = ()

    @property
    def empty(self) -> bool:
        """True if the node has no part in external services."""
        return not self.forwardings and not any(each.outside for each in self.sources)


class ConnectionSync(Protocol):
    """Shares a gateway's connections with its partner, so that they survive the loss of one. Optional."""

    partner: str
    """Address of the node that connections are shared with at this moment; empty if none."""
    problem: str
    """Reason why wanted sharing does not work; empty if it works or is not wanted."""

    async def possible(self) -> bool:
        """Return True if this node is able to share, as tested."""
        ...

    async def backlog(self) -> int | None:
        """Return the number of changes that the partner has not confirmed yet; None if nothing is shared."""
        ...


class EgressDatapath(Protocol):
    """Implements external services on one node.

    Methods that are not coroutines may block for a moment, and are called from the lease thread only.
    """

    @property
    def state_sync(self) -> ConnectionSync:
        """Connection sharing with another gateway."""
        ...

    def identify(self, private_key: bytes) -> None:
        """Set the node's private key for encryption. Must precede the first `apply`."""
        ...

    async def means(self) -> Means:
        """Return the available means of encrypting the tunnel to other cities, as tested."""
        ...

    async def transferred(self) -> Mapping[str, int]:
        """Return the bytes exchanged with nodes of other cities, by address, since their tunnels were created."""
        ...

    async def apply(self, state: EgressState) -> Mapping[str, Exception]:
        """Make the node match the state, and end connections that are no longer allowed.

        Returns failures by ExternalService or address. A failed part is left out, all remaining ones work. An OSError
        means that the node could not, and may later. At no moment, also when it fails, does a tunnel packet pass to or
        from peers unencrypted.
        """
        ...

    async def mend(self) -> Sequence[str]:
        """Repair changes by other programs since the last call; return the repaired parts. Cheap if there are none."""
        ...

    async def carriage(self) -> GatewayTraffic:
        """Return the traffic through this node as a gateway. Takes time in proportion to connections and rules."""
        ...

    async def tracked(self) -> tuple[int, int] | None:
        """Return the number of tracked connections on this gateway, and the maximum; None if it is none."""
        ...

    async def connections(self, transits: Collection[str], most: int) -> Translations:
        """Return live connections under some transit addresses, at most `most` of each side."""
        ...

    def follow(self, owners: Mapping[str, str]) -> None:
        """Route packets of addresses to the nodes that own them now; empty if there is no owner."""
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
        """Return the hardware address of a foreign host that uses an address; empty if none answers.

        Takes a third of a second, so it needs a thread of its own. The probe changes no neighbour cache on the segment.
        """
        ...

    async def interfaces(self, *, connected: bool = False) -> Mapping[str, Sequence[str]]:
        """Return the node's own interfaces and their addresses with prefix lengths; none created by the datapath.

        With `connected` only those that can send at this moment.
        """
        ...

    async def remove(self) -> None:
        """Remove everything."""
        ...
