"""External services without a kernel: stores the wanted state, and can compute the source that the outside would see.

Served addresses stay live until they are dropped: nothing times out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_interface
from typing import NamedTuple, Protocol

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.egress import (
    Departure,
    EgressState,
    Entrance,
    Exit,
    GatewayTraffic,
    Means,
    ServiceTraffic,
    SourceAddress,
    Translations,
)
from tarmac.datapath.interface import NodeNetworks
from tarmac.decide.reach.evaluation import permits
from tarmac.decide.reach.policyrules import Rules

BYTES, PORTS = 100, 64_512
"""Bytes reported for each connection, and connections of an address to one port of a server."""


class EgressFakeNode(Protocol):
    """The node of a fake: its pods, its networks, and the other nodes on the same wire."""

    attached: dict[str, tuple[AttachedInterface, ...]]
    """Interfaces by sandbox."""
    state: NodeNetworks
    external: FakeEgressDatapath

    def neighbour(self, node_address: str) -> EgressFakeNode | None:
        """Return the node on the same wire with this tunnel address, possibly itself."""
        ...


class CounterLabel(NamedTuple):
    """Connections that are counted together."""

    service: str
    source: str
    inward: bool


class FakeStateSync:
    """Shares connections with the configured partner, or reports a problem."""

    def __init__(self) -> None:
        self.partner = self.problem = ""
        self.works = True

    async def possible(self) -> bool:
        """Return the value set by a test."""
        return self.works

    async def backlog(self) -> int | None:
        """Return an empty backlog."""
        return 0 if self.partner else None


class FakeEgressDatapath:
    """External services of one node. `announced` are the addresses that were announced on segments, in order."""

    def __init__(self, node: EgressFakeNode) -> None:
        self._node = node
        self.state = EgressState("")
        self.owners: dict[str, str] = {}
        self.announced: list[str] = []
        self.translations = Translations()
        self.strangers: dict[str, str] = {}  # address -> hardware address
        self.state_sync = FakeStateSync()
        self.links: dict[str, Sequence[str]] = {}
        self.encryption: Means = "userspace"
        self.private_key = b""
        self.cut: set[str] = set()  # links that exist and are not connected
        self._carried: dict[str, float] = {}
        self._began: Counter[CounterLabel] = Counter()
        self._live: Counter[tuple[CounterLabel, Exit | Entrance]] = Counter()

    def identify(self, private_key: bytes) -> None:
        """Store the key."""
        self.private_key = private_key

    async def means(self) -> Means:
        """Return the value set by a test."""
        return self.encryption

    async def transferred(self) -> Mapping[str, int]:
        """Return zero for each peer."""
        return {each.address: 0 for each in self.state.peers}

    async def apply(self, state: EgressState) -> Mapping[str, Exception]:
        """Store the state; an ExternalService with a missing Network fails."""
        here = {network.name for network in self._node.state.networks}
        absent = {each.name for each in state.forwardings if any(way.network not in here for way in each.ways)}
        sound = tuple(each for each in state.forwardings if each.name not in absent)
        self.state = replace(state, forwardings=sound)
        self.state_sync.partner = state.partner if self.state_sync.works else ""
        self._carried = {each: left for each, left in self._carried.items() if self._source(each) is not None}
        ways = {way for _, way in self._ways()}
        self._live = Counter({known: number for known, number in self._live.items() if known[1] in ways})
        return {name: OSError(f"a network of {name} is not on this node") for name in absent}

    async def mend(self) -> Sequence[str]:
        """Never needs a repair."""
        return ()

    async def carriage(self) -> GatewayTraffic:
        """Return the connections seen and answered through this node. A connection lasts while its rule exists."""
        use, live = dict.fromkeys(self._carried, 0.0), Counter[CounterLabel]()
        for (label, _), number in self._live.items():
            if label.source in use:
                live[label] += number
                use[label.source] = max(use[label.source], 0.0 if label.inward else number / PORTS)
        present = {CounterLabel(way.service, each.address, isinstance(way, Entrance)) for each, way in self._ways()}
        reported = sorted(present & self._began.keys())
        counts = ((each, self._began[each]) for each in reported)
        return GatewayTraffic(
            tuple(ServiceTraffic(*each, live[each], number, number * BYTES) for each, number in counts), use
        )

    async def tracked(self) -> tuple[int, int] | None:
        """Return zero tracked connections."""
        return None if self.state.empty else (0, 1)

    async def connections(self, transits: Collection[str], most: int) -> Translations:
        """Return the connections set by a test, for any transit addresses."""
        return self.translations

    def follow(self, owners: Mapping[str, str]) -> None:
        """Store the owners of addresses."""
        self.owners |= owners

    def carry(self, seconds: Mapping[str, float]) -> None:
        """Serve addresses."""
        own = {each: left for each, left in seconds.items() if self._source(each) is not None}
        self._carried |= own
        self.owners |= dict.fromkeys(own, self.state.node_address)

    def drop(self, addresses: Sequence[str]) -> None:
        """Stop serving addresses."""
        for each in addresses:
            if self._carried.pop(each, None) is not None and self.owners.get(each) == self.state.node_address:
                self.owners[each] = ""

    def announce(self, addresses: Sequence[str]) -> None:
        """Record announcements."""
        self.announced += [each for each in addresses if each in self._carried]

    def carried(self) -> Mapping[str, float]:
        """Return the addresses that it serves."""
        return dict(self._carried)

    def probe(self, address: str) -> str:
        """Return the foreign host set by a test."""
        return self.strangers.get(address, "")

    async def interfaces(self, *, connected: bool = False) -> Mapping[str, Sequence[str]]:
        """Return the links set by a test, without those in `cut` if `connected`."""
        return {name: own for name, own in self.links.items() if not connected or name not in self.cut}

    async def remove(self) -> None:
        """Reset everything."""
        self.state, self._carried = EgressState(""), {}
        self.owners.clear()

    def seen(self, sandbox_id: str, address: str, port: int, protocol: str = "TCP") -> str | None:
        """Return the source that the server outside sees of a connection; None if it is not possible."""
        for way in (way for each in self.state.forwardings for way in each.departures):
            if (way.dialled, way.port, way.protocol) == (address, port, protocol) and self._has(sandbox_id, way):
                owner = self._node.neighbour(self.owners.get(way.source, ""))
                allowed = self._permits(way) and owner is not None and owner.external.lets_out(way, self.state)
                return way.source if allowed else None
        return None

    def lets_out(self, way: Departure, of: EgressState) -> bool:
        """Return True if a gateway forwards a connection of another node, which is then counted."""
        source = self._source(way.source)
        if source is None or not self._hears(of) or way.source not in self._carried:
            return False
        for each in source.exits:
            if (each.transit, each.node, each.target, each.protocol, each.port) == (
                way.transit,
                of.node_address,
                way.target,
                way.protocol,
                way.target_port,
            ):
                self._count(CounterLabel(each.service, way.source, inward=False), each)
                return True
        return False

    def answers(self, target: str, address: str, port: int, protocol: str = "TCP") -> str | None:
        """Return the sandbox that a server outside reaches at an address that this node serves."""
        source = self._source(address)
        if source is None or address not in self._carried:
            return None
        for way in source.entrances:
            node = self._node.neighbour(way.node)
            known = node is not None and self._hears(node.external.state)
            if (way.target, way.port, way.protocol) == (target, port, protocol) and node is not None and known:
                answerer = node.external.arrives(target, way.transit, port, protocol)
                if answerer is not None:
                    self._count(CounterLabel(way.service, address, inward=True), way)
                return answerer
        return None

    def arrives(self, target: str, transit: str, port: int, protocol: str) -> str | None:
        """Return the sandbox on this node that answers a server outside, by a transit address."""
        for way in (way for each in self.state.forwardings for way in each.arrivals):
            if (way.target, way.transit, way.port, way.protocol) == (target, transit, port, protocol):
                rules = self._rules(way.network, way.endpoint[0])
                if permits(rules.ingress, target, protocol, way.endpoint[1]):
                    return self._holder(way.network, way.endpoint[0])
        return None

    def _hears(self, other: EgressState) -> bool:
        """Return True if packets pass between two nodes: both encrypt, with each other's key, or neither does."""
        mine = {each.address: each.public_key for each in self.state.peers}.get(other.node_address)
        theirs = {each.address: each.public_key for each in other.peers}.get(self.state.node_address)
        return mine is theirs is None or bool(mine and theirs)

    def _ways(self) -> Iterator[tuple[SourceAddress, Exit | Entrance]]:
        for each in self.state.sources:
            for way in (*each.exits, *each.entrances):
                yield each, way

    def _count(self, label: CounterLabel, way: Exit | Entrance) -> None:
        self._began[label] += 1
        self._live[label, way] += 1

    def _source(self, address: str) -> SourceAddress | None:
        return next((each for each in self.state.sources if each.address == address and each.outside), None)

    def _has(self, sandbox_id: str, way: Departure) -> bool:
        return self._holder(way.network, way.pod) == sandbox_id

    def _holder(self, network: str, address: str) -> str | None:
        for sandbox_id, interfaces in self._node.attached.items():
            for each in interfaces:
                if each.network == network and address in (str(ip_interface(own).ip) for own in each.addresses):
                    return sandbox_id
        return None

    def _permits(self, way: Departure) -> bool:
        return permits(self._rules(way.network, way.pod).egress, way.target, way.protocol, way.target_port)

    def _rules(self, network: str, address: str) -> Rules:
        found = next((each for each in self._node.state.networks if each.name == network), None)
        return Rules() if found is None else found.rules.get(address, Rules())
