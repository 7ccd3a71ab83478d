"""External services, as a node should have them: who may dial whom, under which address, and who carries it.

A connection of a pod goes out under a SourceIP that some gateway carries. Pods' addresses mean nothing outside their
Network, so between nodes it travels under a transit address, which stands for one ExternalService, node, Network and
SourceIP. A pod's node knows pods and transit addresses (`Forwarding`), a gateway transit addresses and the outside
(`SourceAddress`).

What a gateway may send out it may for a while only: whoever holds an address says so again and again (`carry`), and the
kernel goes silent by itself when nobody does.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from dataclasses import dataclass, field
from typing import Literal, Protocol

Transport = Literal["TCP", "UDP", "SCTP"]
Means = Literal["kernel", "userspace", "none"]
"""By what tunnels between cities can be encrypted: the kernel's driver, a program, or nothing."""


@dataclass(frozen=True, slots=True, order=True)
class Departure:
    """A pod may dial an address and port, which means a server outside."""

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
    """The server outside may connect back to a port, where a pod answers. `affinity`: its port does not count."""

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
        """All of it, in both directions."""
        return *self.departures, *self.arrivals

    @property
    def networks(self) -> Set[str]:
        """The Networks of its pods."""
        return {way.network for way in self.ways}


@dataclass(frozen=True, slots=True, order=True)
class Exit:
    """What comes under a transit address from a node may go to a server outside."""

    transit: str
    node: str  # address where its tunnels end
    target: str
    protocol: Transport
    port: int
    service: str = ""  # the ExternalService whose transit address it is, for counting


@dataclass(frozen=True, slots=True, order=True)
class Entrance:
    """What comes from a server outside to a port goes to one of the nodes, each as often as its weight."""

    target: str
    protocol: Transport
    port: int
    transit: str
    node: str
    weight: int = 1
    affinity: bool = False
    service: str = ""


@dataclass(frozen=True, slots=True)
class Outside:
    """Where an address is at home: an interface of the node, the segment behind it, and the router there, if any."""

    interface: str
    segment: str  # CIDR
    gateway: str = ""
    virtual: bool = False
    """The address has a hardware address of its own, the same wherever it is carried."""


@dataclass(frozen=True, slots=True)
class SourceAddress:
    """One SourceIP. `outside` is said on nodes that may carry it only, as are exits and entrances."""

    address: str
    mark: int  # the same on all nodes, 1 to 65535
    candidates: tuple[str, ...]  # addresses of the nodes that may carry it
    outside: Outside | None = None
    exits: tuple[Exit, ...] = ()
    entrances: tuple[Entrance, ...] = ()
    connections: int | None = None  # most at a time
    out_rate: int | None = None  # bits per second
    in_rate: int | None = None


@dataclass(frozen=True, slots=True, order=True)
class TunnelPeer:
    """A node in another city, whose packets come and go encrypted. Without its key nothing does."""

    address: str  # where its tunnels end
    public_key: str = ""  # of X25519, in base64


@dataclass(frozen=True, slots=True)
class Traffic:
    """What has gone by one address for one ExternalService, in connections that the same side began.

    `live` are those that the kernel remembers of an address that this node carries. Bytes are those of packets, in both
    directions. Neither `connections` nor `bytes` ever falls, whatever becomes of rules.
    """

    service: str  # namespace/name
    source: str
    inward: bool  # the server outside began them
    live: int
    connections: int
    bytes: int


@dataclass(frozen=True, slots=True)
class Carriage:
    """What a gateway has carried; and of each address that it carries now, how far its ports are used up.

    An address has so many ports towards each port of a server: the fullest counts, 1 is full.
    """

    traffic: tuple[Traffic, ...] = ()
    port_use: Mapping[str, float] = field(default_factory=dict[str, float])


EndPoint = tuple[str, int]
"""An address and a port, where one side of a connection ends."""


@dataclass(frozen=True, slots=True)
class Translated:
    """A connection as a namespace remembers it: who began it and whom they meant, who answers, and as whom they see it.

    Bytes are counted from whoever began it and back; `since` is in Unix seconds, 0 when nobody knows.
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
        """All four."""
        return self.source, self.meant, self.answerer, self.seen


@dataclass(frozen=True, slots=True)
class Translations:
    """Connections of pods of this node, between pod and transit address; and between transit address and SourceIP."""

    forwarded: Sequence[Translated] = ()
    carried: Sequence[Translated] = ()


@dataclass(frozen=True, slots=True)
class ExternalState:
    """Everything that a node should have of external services."""

    node_address: str
    forwardings: tuple[Forwarding, ...] = ()
    sources: tuple[SourceAddress, ...] = ()
    partner: str = ""  # address of the gateway that shares its connections with this one
    peers: tuple[TunnelPeer, ...] = ()

    @property
    def empty(self) -> bool:
        """Whether the node has no part in them."""
        return not self.forwardings and not any(each.outside for each in self.sources)


class StateSyncing(Protocol):
    """Shares a gateway's connections with its partner, so that they survive the loss of one. All works without."""

    partner: str
    """Address of the node that connections are shared with at this moment; empty when with nobody."""
    problem: str
    """Why they are not, though they should; empty when nothing is wrong."""

    async def possible(self) -> bool:
        """Whether this node could, as tried."""
        ...

    async def backlog(self) -> int | None:
        """How many changes the partner has not confirmed yet; None when nothing is shared."""
        ...


class ExternalDatapath(Protocol):
    """Makes external services real on one node. What is not awaited may block for a moment, and is called from the one
    thread that looks after leases."""

    @property
    def state_sync(self) -> StateSyncing:
        """What shares connections with another gateway."""
        ...

    def identify(self, private_key: bytes) -> None:
        """The node's own key, by which it encrypts; said before anything is applied."""
        ...

    async def means(self) -> Means:
        """By what the tunnel to other cities can be encrypted, as tried."""
        ...

    async def transferred(self) -> Mapping[str, int]:
        """Bytes exchanged with nodes of other cities, by address, since their tunnels are there."""
        ...

    async def apply(self, state: ExternalState) -> Mapping[str, Exception]:
        """Make the node so, and end the connections that are no longer allowed; failures by ExternalService or address.

        What fails is left out, the others work. An OSError means that the node could not, and may later. At no moment,
        also when it fails, does anything of the tunnel go to peers or come from them unencrypted.
        """
        ...

    async def mend(self) -> Sequence[str]:
        """Put back what somebody else changed since the last time; what it was. Cheap when nothing was."""
        ...

    async def carriage(self) -> Carriage:
        """What has gone through this node as a gateway. It takes as long as there are connections and rules."""
        ...

    async def tracked(self) -> tuple[int, int] | None:
        """How many connections this node remembers as a gateway, and how many it could; None when it is none."""
        ...

    async def connections(self, transits: Collection[str], most: int) -> Translations:
        """Live connections under some transit addresses, at most so many of each side."""
        ...

    def follow(self, owners: Mapping[str, str]) -> None:
        """Send what goes out under addresses to the nodes that carry them now; empty when nobody does."""
        ...

    def carry(self, seconds: Mapping[str, float]) -> None:
        """Carry addresses for so long, from now on or on; nothing of them leaves this node later than that."""
        ...

    def drop(self, addresses: Sequence[str]) -> None:
        """Stop carrying addresses. Nothing of them leaves this node when this has returned."""
        ...

    def announce(self, addresses: Sequence[str]) -> None:
        """Tell the segments where addresses are, if this node carries them at this moment."""
        ...

    def carried(self) -> Mapping[str, float]:
        """The addresses that this node carries, and for how many seconds still, whoever said so."""
        ...

    def probe(self, address: str) -> str:
        """The hardware address of a stranger who has an address that this node may carry; empty when nobody answers.

        It takes a third of a second, so it is called from a thread of its own. Nothing that is sent teaches anybody
        where the address is.
        """
        ...

    async def interfaces(self, *, connected: bool = False) -> Mapping[str, Sequence[str]]:
        """The node's own interfaces and their addresses with prefix lengths; none that the datapath itself has made.

        With `connected` only those that can send at this moment.
        """
        ...

    async def remove(self) -> None:
        """Leave nothing of it behind."""
        ...
