"""Public addresses without a kernel: stores the wanted state, and computes the pod that answers a client outside.

Served addresses stay live until they are dropped: nothing times out. Limits of addresses are stored without effect.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from ipaddress import ip_address, ip_interface, ip_network
from typing import NamedTuple, Protocol
from zlib import crc32

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.fakespeaker import FakeSpeaker
from tarmac.datapath.ingress import IngressAddress, IngressState, LocalBackend, OpenPort
from tarmac.datapath.interface import NodeNetworks
from tarmac.datapath.speaker import SpeakerState
from tarmac.decide.ingress.slots import SLOTS, slots
from tarmac.decide.reach.evaluation import permits
from tarmac.decide.reach.marks import is_reserved, node_marks
from tarmac.decide.reach.policyrules import Rules


class AcceptedConnection(NamedTuple):
    """The pod that answers a client, the source that it sees, and the node that the connection entered by."""

    sandbox: str
    seen: str
    gateway: str


class IngressFakeNode(Protocol):
    """The node of a fake: its pods, its networks, and the other nodes on the same wire."""

    attached: dict[str, tuple[AttachedInterface, ...]]
    """Interfaces by sandbox."""
    state: NodeNetworks
    ingress: FakeIngressDatapath

    def neighbour(self, node_address: str) -> IngressFakeNode | None:
        """Return the node on the same wire with this tunnel address, possibly itself."""
        ...


class FakeIngressDatapath:
    """Public addresses of one node. `announced` are the addresses that were announced on segments, in order."""

    def __init__(self, node: IngressFakeNode) -> None:
        self._node = node
        self.state = IngressState("")
        self.announced: list[str] = []
        self.strangers: dict[str, str] = {}  # address -> hardware address
        self.unreachable: set[str] = set()  # addresses that the node's own connections do not reach
        self._carried: dict[str, float] = {}
        self.speaker = FakeSpeaker()

    async def apply(self, state: IngressState) -> Mapping[str, Exception]:
        """Store the state; backends of a missing Network are left out, and their address fails."""
        here = {network.name for network in self._node.state.networks}
        failures: dict[str, Exception] = {}
        addresses: list[IngressAddress] = []
        for each in state.addresses:
            ports = tuple(
                replace(port, backends=tuple(own for own in port.backends if own.network in here))
                for port in each.ports
            )
            if ports != each.ports:
                missing = min(own.network for port in each.ports for own in port.backends if own.network not in here)
                failures[each.address] = OSError(f"network {missing} is not on this node")
            addresses.append(replace(each, ports=ports))
        self.state = replace(state, addresses=tuple(addresses))
        ownable = {each.address for each in addresses if each.outside}
        self._carried = {each: left for each, left in self._carried.items() if each in ownable}
        return failures

    async def mend(self) -> Sequence[str]:
        """Never needs a repair."""
        return ()

    def carry(self, seconds: Mapping[str, float]) -> None:
        """Serve addresses."""
        ownable = {each.address for each in self.state.addresses if each.outside}
        self._carried |= {each: left for each, left in seconds.items() if each in ownable}

    def drop(self, addresses: Sequence[str]) -> None:
        """Stop serving addresses."""
        for each in addresses:
            self._carried.pop(each, None)

    def announce(self, addresses: Sequence[str]) -> None:
        """Record announcements."""
        self.announced += [each for each in addresses if each in self._carried]

    def carried(self) -> Mapping[str, float]:
        """Return the addresses that it serves."""
        return dict(self._carried)

    def probe(self, address: str) -> str:
        """Return the foreign host set by a test."""
        return self.strangers.get(address, "")

    async def connect(self, address: str, port: int, timeout: float) -> None:
        """Raise an OSError if no pod answers the node itself, or a test says that none does."""
        if address in self.unreachable:
            raise TimeoutError(f"{address} does not answer")
        if self.answers_node(0, address, port) is None:
            raise ConnectionRefusedError(f"{address}:{port} refuses")

    async def remove(self) -> None:
        """Reset everything."""
        self.state, self._carried = IngressState(""), {}
        await self.speaker.ensure(SpeakerState())

    def answers(
        self, client: tuple[str, int], address: str, port: int, protocol: str = "TCP"
    ) -> AcceptedConnection | None:
        """Return the answer to a client outside, if this node serves the address."""
        routed = {each.address for each in self.state.addresses if each.routed}
        served = address in self._carried or address in routed
        return self._enters(client, address, port, protocol) if served else None

    def answers_node(self, own_port: int, address: str, port: int, protocol: str = "TCP") -> AcceptedConnection | None:
        """Return the answer to a client on the node itself."""
        own = node_marks(self.state.node_address)[":" in address]
        return self._enters((own, own_port), address, port, protocol)

    def _enters(self, client: tuple[str, int], address: str, port: int, protocol: str) -> AcceptedConnection | None:
        found = self._port(address, port, protocol)
        if found is None or not self._admits(client[0], found):
            return None
        chosen = slots(dict(found.nodes))
        if not chosen:
            return None
        hashed = crc32(repr(client if not found.affinity else client[0]).encode())
        node = self._node.neighbour(chosen[hashed % SLOTS])
        if node is None:
            return None
        arrived = node.ingress.arrives(self.state.node_address, client[0], hashed, address, port, protocol)
        return None if arrived is None else AcceptedConnection(*arrived, self.state.node_address)

    def arrives(
        self, gateway: str, client: str, hashed: int, address: str, port: int, protocol: str
    ) -> tuple[str, str] | None:
        """Return the pod on this node that answers a connection of a gateway, and the source that it sees."""
        own = self.state.node_address
        found = self._port(address, port, protocol)
        if found is None or not found.backends or not (gateway == own or gateway in self.state.peers):
            return None
        backend = sorted(found.backends)[hashed % len(found.backends)]
        ranges = self.state.networks.get(backend.network, ())
        inside = is_reserved(client) or any(ip_address(client) in ip_network(each) for each in ranges)
        seen = node_marks(own)[":" in address] if inside else client
        rules = self._rules(backend)
        holder = self._holder(backend)
        if holder is None or not permits(rules.ingress, seen, protocol, backend.port):
            return None
        return holder, seen

    def _admits(self, client: str, port: OpenPort) -> bool:
        return port.admits(self.state.node_address if is_reserved(client) else client)

    def _port(self, address: str, port: int, protocol: str) -> OpenPort | None:
        ports = (own for each in self.state.addresses if each.address == address for own in each.ports)
        return next((each for each in ports if (each.port, each.protocol) == (port, protocol)), None)

    def _rules(self, backend: LocalBackend) -> Rules:
        found = next((each for each in self._node.state.networks if each.name == backend.network), None)
        return Rules() if found is None else found.rules.get(backend.address, Rules())

    def _holder(self, backend: LocalBackend) -> str | None:
        for sandbox_id, interfaces in self._node.attached.items():
            for each in interfaces:
                own = {str(ip_interface(address).ip) for address in each.addresses}
                if each.network == backend.network and backend.address in own:
                    return sandbox_id
        return None
