"""ExternalServices on a real and a fake datapath alike: two Networks whose pods have the same addresses.

Nodes 1 and 2 have pods, nodes 3 and 4 may be gateways; node 3 has a pod of its own, too.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from ipaddress import ip_network
from pathlib import Path
from typing import Literal

from tarmac.api.networking.names import TRANSITS
from tarmac.datapath.egress import (
    Arrival,
    Departure,
    EgressState,
    EncryptedPeer,
    Entrance,
    Exit,
    Forwarding,
    OutsideLink,
    SourceAddress,
)
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tests.datapath.segment import INTERFACE, SEGMENTS, STRANGER, STRANGER6, TARGET, TARGET6, Segment
from tests.datapath.worlds import FakeWorld, RealWorld, nic

ONE, TWO = "ns1/default", "ns2/default"
POD, POD6 = "10.128.0.2", "fd20:1::2"
SOURCE1, SOURCE2 = "192.168.122.200", "192.168.122.201"
SOURCE6, SOURCE7 = "fd00:122::200", "fd00:122::201"
DIAL, DIAL6 = "169.254.192.7", "fd74:6172:6d63:fffc::7"
RANGES = ("10.128.0.0/9", "fd20:1::/48")
GATEWAYS = (3, 4)
MARKS = {SOURCE1: 11, SOURCE2: 12, SOURCE6: 13, SOURCE7: 14}
Protocol = Literal["TCP", "UDP", "SCTP"]


@dataclass(frozen=True)
class Source:
    """A pod that may dial, and the address under which the server sees it."""

    sandbox: str
    node: int
    network: str
    address: str
    source: str


@dataclass(frozen=True)
class Service:
    """An ExternalService with the fields that tests vary."""

    sources: Sequence[Source]
    ports: Sequence[tuple[Protocol, int, int]] = (("TCP", 8000, 8000), ("UDP", 8000, 8000))
    inbound: Sequence[tuple[Protocol, int, int]] = ()  # port of the Service, port of the pod
    name: str = "ns1/my-externalservice"
    affinity: bool = False
    connections: int | None = None
    rates: tuple[int | None, int | None] = (None, None)
    virtual: bool = False
    targets: dict[int, str] = field(default_factory=lambda: {4: TARGET, 6: TARGET6})
    dialled: dict[int, str] = field(default_factory=lambda: {4: DIAL, 6: DIAL6})
    peers: Mapping[int, tuple[EncryptedPeer, ...]] = field(
        default_factory=dict[int, tuple[EncryptedPeer, ...]]
    )  # by node

    def state(self, node: int) -> EgressState:
        """Return the desired state of a node."""
        own = [each for each in self.sources if each.node == node]
        departures = [
            Departure(
                each.network,
                each.address,
                self.dialled[_v(each)],
                p,
                at,
                self.targets[_v(each)],
                to,
                transit(each),
                each.source,
            )
            for each in own
            for p, at, to in self.ports
        ]
        arrivals = [
            Arrival(
                each.network,
                self.targets[_v(each)],
                transit(each),
                p,
                at,
                (each.address, to),
                each.source,
                self.affinity,
            )
            for each in own
            for p, at, to in self.inbound
        ]
        forwardings = (Forwarding(self.name, tuple(departures), tuple(arrivals)),) if own else ()
        return EgressState(f"198.18.0.{node}", forwardings, self._addresses(node), peers=self.peers.get(node, ()))

    def _addresses(self, node: int) -> tuple[SourceAddress, ...]:
        return tuple(self._address(address, node) for address in sorted({each.source for each in self.sources}))

    def _address(self, address: str, node: int) -> SourceAddress:
        nodes = tuple(f"198.18.0.{each}" for each in GATEWAYS)
        bare = SourceAddress(
            address, MARKS[address], nodes, connections=self.connections, out_rate=self.rates[0], in_rate=self.rates[1]
        )
        if node not in GATEWAYS:
            return bare
        own = [each for each in self.sources if each.source == address]
        exits = {
            Exit(transit(each), f"198.18.0.{each.node}", self.targets[_v(each)], p, to, self.name)
            for each in own
            for p, _, to in self.ports
        }
        weights: dict[tuple[str, str, str, Protocol, int], int] = {}
        for each in own:
            for p, at, _ in self.inbound:
                key = self.targets[_v(each)], transit(each), f"198.18.0.{each.node}", p, at
                weights[key] = weights.get(key, 0) + 1
        entrances = tuple(
            Entrance(target, p, at, way, home, weight, self.affinity, self.name)
            for (target, way, home, p, at), weight in sorted(weights.items())
        )
        segment = SEGMENTS[6 if ":" in address else 4]
        return replace(
            bare,
            outside=OutsideLink(INTERFACE, segment, virtual=self.virtual),
            exits=tuple(sorted(exits)),
            entrances=entrances,
        )


def _v(source: Source) -> int:
    return 6 if ":" in source.address else 4


def transit(source: Source) -> str:
    """Return the transit address of (node, Network, SourceIP)."""
    number = source.node * 1000 + (500 if source.network == TWO else 0) + MARKS[source.source]
    return str(ip_network(TRANSITS[0 if _v(source) == 4 else 1])[number])


def dialled(version: int) -> str:
    return {4: DIAL, 6: DIAL6}[version]


NETWORKS = {ONE: 4097, TWO: 4098}
PODS = {"a": (1, ONE), "b": (1, TWO), "c": (2, ONE), "d": (3, TWO)}
"""Sandbox -> node and Network. The first pod of each Network has the address `POD`, the others do not."""

ADDRESSES = {
    "a": (POD, POD6),
    "b": (POD, POD6),
    "c": ("10.128.16.2", "fd20:1:0:1::2"),
    "d": ("10.128.32.2", "fd20:1:0:2::2"),
}


def source(sandbox: str, address: str) -> Source:
    node, network = PODS[sandbox]
    return Source(sandbox, node, network, ADDRESSES[sandbox][":" in address], address)


KEP = Service([source("a", SOURCE1), source("c", SOURCE1), source("b", SOURCE2)])
"""The KEP's example: the server sees pods of one Service under the first address, those of another under the second."""


@dataclass(frozen=True)
class Family:
    """The KEP's example in one address family: the first address, the second, the dialled one, and the server's."""

    version: int
    first: str
    second: str
    dial: str
    target: str
    kep: Service


IPV4 = Family(4, SOURCE1, SOURCE2, DIAL, TARGET, KEP)
IPV6 = Family(
    6, SOURCE6, SOURCE7, DIAL6, TARGET6, Service([source("a", SOURCE6), source("c", SOURCE6), source("b", SOURCE7)])
)


class ExternalWorld:
    """The nodes and the outside."""

    def __init__(self, world: FakeWorld | RealWorld) -> None:
        self.world = world
        self.segment = Segment(world) if isinstance(world, RealWorld) else None

    async def begin(self) -> None:
        """Create nodes, Networks, and pods that respond with their names at port 80."""
        for node in (1, 2, 3, 4):
            if self.segment is not None and node in GATEWAYS:
                self.segment.gateway(node)
            await self.network(node)
        for sandbox, (node, network) in PODS.items():
            four, six = ADDRESSES[sandbox]
            await self.world.pod(node, sandbox, [nic(network, f"{four}/20", f"{six}/64", vni=NETWORKS[network])])
            await self.world.serve(sandbox, 80)
        if self.segment is not None:
            for port in (8000, 8001):
                await self.segment.serve(port)

    async def network(self, node: int, **changes: NetworkState) -> None:
        """Apply the Networks of a node; `changes` replaces some, by namespace."""
        states = [
            changes.get(name.partition("/")[0], NetworkState(name, vni, 1460, RANGES)) for name, vni in NETWORKS.items()
        ]
        assert not await self.world.node(node).apply(NodeNetworks((f"198.18.0.{node}",), tuple(states)))

    async def apply(self, service: Service, *nodes: int) -> None:
        """Apply an ExternalService to all nodes, or to some."""
        for node in nodes or (3, 4, 1, 2):
            assert not await self.world.node(node).external.apply(service.state(node))

    def carry(self, node: int, *addresses: str, seconds: float = 60.0) -> None:
        """Let a node carry addresses and all other nodes follow it."""
        if self.segment is not None:
            self.segment.carry(node, *addresses, seconds=seconds)
        else:
            self.world.node(node).external.carry(dict.fromkeys(addresses, seconds))
        for other in (1, 2, 3, 4):
            if other != node:
                self.world.node(other).external.follow(dict.fromkeys(addresses, f"198.18.0.{node}"))
        self.world.node(node).external.announce(addresses)

    def drop(self, node: int, *addresses: str) -> None:
        if self.segment is not None:
            self.segment.drop(node, *addresses)
        else:
            self.world.node(node).external.drop(addresses)

    async def seen(
        self, sandbox: str, address: str = DIAL, port: int = 8000, protocol: Protocol = "TCP", *, hope: bool = True
    ) -> str | None:
        """Return the source that the server sees of a pod's connection; None without a connection."""
        if isinstance(self.world, FakeWorld):
            return self.world.node(PODS[sandbox][0]).external.seen(sandbox, address, port, protocol)
        assert self.segment is not None
        return await self.segment.said(self.world.namespace(sandbox), address, port, protocol, hope=hope)

    async def called(
        self, address: str, port: int, protocol: Protocol = "TCP", *, stranger: bool = False, hope: bool = True
    ) -> str | None:
        """Return the pod that responds to the server, or to a foreign host, at an address."""
        if isinstance(self.world, FakeWorld):
            caller = (STRANGER6 if stranger else TARGET6) if ":" in address else (STRANGER if stranger else TARGET)
            nodes = (self.world.node(each).external for each in GATEWAYS)
            return next((found for each in nodes if (found := each.answers(caller, address, port, protocol))), None)
        assert self.segment is not None
        caller = self.segment.stranger if stranger else self.segment.target
        return await self.segment.said(caller, address, port, protocol, hope=hope)

    def frames(self) -> Segment:
        """Return the LAN of a world with packets."""
        assert self.segment is not None
        return self.segment

    def namespace(self, sandbox: str) -> Path:
        """Return a real pod's namespace."""
        assert isinstance(self.world, RealWorld)
        return self.world.namespace(sandbox)


@asynccontextmanager
async def external_world(world: FakeWorld | RealWorld) -> AsyncGenerator[ExternalWorld]:
    """Run a world with an outside. At its end, no outside frame may have had a wrong source."""
    segment = None
    try:
        made = ExternalWorld(world)
        segment = made.segment
        await made.begin()
        yield made
    finally:
        if isinstance(world, RealWorld):
            for node in GATEWAYS:
                await world.node(node).external.remove()  # first, since an ending namespace may send packets
        await (world.close(remove=False) if isinstance(world, RealWorld) else world.close())
        if segment is not None:
            segment.close()
    if segment is not None:
        assert not segment.missed, f"{segment.missed} frames came too fast to be looked at: nobody knows their sources"
        wrong = segment.wrong()
        assert not wrong, f"{len(wrong)} frames of {len(segment.frames)} have a wrong source: {wrong[:5]}"
