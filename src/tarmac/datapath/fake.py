"""A datapath without a kernel: it stores the wanted state, and can compute the destination of a packet.

Nodes of one `FakeUnderlay` know each other by address, as nodes on a wire do. `reaches` follows a packet as the real
datapath would: out of the pod by its routes, through services and policies, over the tunnel, to the sandbox that has
the address.
"""

from __future__ import annotations

import asyncio
import errno
import io
import socket
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from msgspec.structs import replace as replace_fields

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.egress import Means
from tarmac.datapath.fakeegress import FakeEgressDatapath
from tarmac.datapath.fakeingress import FakeIngressDatapath
from tarmac.datapath.interface import Attached, NetworkState, NodeNetworks, Traffic, ignore
from tarmac.decide.reach.evaluation import permits
from tarmac.decide.reach.marks import node_marks
from tarmac.decide.reach.policyrules import Rules
from tarmac.decide.reach.routing import is_within, own_address, own_addresses, way_out


@dataclass(slots=True)
class FakeUnderlay:
    """Nodes by the address of their tunnel ends."""

    nodes: dict[str, FakeDatapath] = field(default_factory=dict[str, "FakeDatapath"])


class FakeEncryption:
    """Encrypts nothing, and reports the values set by a test."""

    def __init__(self, external: FakeEgressDatapath) -> None:
        self.failed = ""
        self._external = external

    async def means(self) -> Means:
        """Return the means of external services."""
        return await self._external.means()

    async def mend(self) -> bool:
        """Never needs a repair."""
        return False


class FakeDatapath:
    """One node. `doors` maps an address and port of a network to a real server for `connect`.

    `taps` has the router's end of each open tap, by sandbox and position: a test sends frames through it.
    """

    def __init__(self, underlay: FakeUnderlay | None = None) -> None:
        self.doors: dict[tuple[str, str, int], tuple[str, int]] = {}
        self.attached: dict[str, tuple[AttachedInterface, ...]] = {}
        self.taps: dict[tuple[str, int], socket.socket | None] = {}
        self.state = NodeNetworks(())
        self._underlay = underlay or FakeUnderlay()
        self._indexes: dict[tuple[str, int], str] = {}
        self.external = FakeEgressDatapath(self)
        self.tunnels = FakeEncryption(self.external)
        self.ingress = FakeIngressDatapath(self)

    async def attach(self, sandbox_id: str, namespace: str, interfaces: Sequence[AttachedInterface]) -> Attached:
        """Store the pod's interfaces."""
        if sandbox_id not in self.attached:
            for interface in interfaces:
                self._indexes[interface.network, len(self._indexes) + 2] = sandbox_id
        self.attached[sandbox_id] = tuple(interfaces)
        return Attached(tuple(interfaces))

    async def attach_taps(self, sandbox_id: str, interfaces: Sequence[AttachedInterface]) -> Attached:
        """Store the machine's interfaces."""
        made = [
            replace_fields(each, mac=each.mac or f"02:00:00:00:00:{position:02x}", mtu=each.mtu or 1500)
            for position, each in enumerate(interfaces)
        ]
        for position in range(len(made)):
            self.taps.setdefault((sandbox_id, position), None)
        return await self.attach(sandbox_id, "", made)

    async def open_tap(self, sandbox_id: str, position: int, *, further: bool = False) -> io.FileIO:
        """Return one end of a socket pair; the other end is in `taps`. It has one queue."""
        if (sandbox_id, position) not in self.taps:
            raise OSError(errno.ENODEV, f"sandbox {sandbox_id} has no tap {position}")
        other = self.taps[sandbox_id, position]
        if further or (other is not None and _has_a_user(other)):
            raise OSError(errno.EBUSY, "somebody has the tap open")
        if other is not None:
            other.close()
        router, guest = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        router.setblocking(False)
        self.taps[sandbox_id, position] = router
        return io.FileIO(guest.detach(), "r+")

    async def traffic(self) -> Mapping[str, Traffic]:
        """Return zero traffic for each machine."""
        return {sandbox_id: Traffic() for sandbox_id, _ in self.taps}

    async def detach(self, sandbox_id: str) -> None:
        """Remove the interfaces of a sandbox."""
        self.attached.pop(sandbox_id, None)
        for key in [key for key in self.taps if key[0] == sandbox_id]:
            if (router := self.taps.pop(key)) is not None:
                router.close()
        self._indexes = {key: of for key, of in self._indexes.items() if of != sandbox_id}

    async def apply(
        self, state: NodeNetworks, *, verify: bool = True, made: Callable[[NetworkState], None] = ignore
    ) -> Mapping[str, Exception]:
        """Store the networks, and keep those that pods still use."""
        used = {interface.network for interfaces in self.attached.values() for interface in interfaces}
        named = {network.name for network in state.networks}
        kept = tuple(each for each in self.state.networks if each.name in used - named)
        self.state = replace(state, networks=(*state.networks, *kept))
        for address in state.node_addresses:
            self._underlay.nodes[address] = self
        for network in state.networks:
            made(network)
        return {}

    async def sweep(self, live: Set[str]) -> Sequence[str]:
        """Remove sandboxes that are not alive."""
        dead = sorted(self.attached.keys() - live)
        for sandbox_id in dead:
            await self.detach(sandbox_id)
        return dead

    async def has_rules_about(self, pod: str, interfaces: Sequence[AttachedInterface]) -> bool:
        """Return True if the networks name the pod at all its addresses."""
        networks = {network.name: network.pods for network in self.state.networks}
        return all(
            networks.get(interface.network, {}).get(address) == pod
            for interface in interfaces
            for address in own_addresses(interface)
        )

    async def connect(self, network: str, address: str, port: int, timeout: float) -> socket.socket:
        """Return a socket connected through a door, if there is one."""
        self._require(network)
        door = self.doors.get((network, address, port))
        if door is None:
            raise ConnectionRefusedError(errno.ECONNREFUSED, f"nobody listens at {address} port {port}")
        made = socket.socket()
        made.setblocking(False)
        try:
            async with asyncio.timeout(timeout):
                await asyncio.get_running_loop().sock_connect(made, door)
        except BaseException:
            made.close()
            raise
        return made

    async def bind(self, network: str, address: str, port: int, kind: Literal["tcp", "udp"]) -> socket.socket:
        """Return a listening socket on the loopback, with a door that leads to it."""
        self._require(network)
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        made.setblocking(False)
        made.bind(("127.0.0.1", 0))
        if kind == "tcp":
            made.listen()
        self.doors[network, address, port] = made.getsockname()
        return made

    def sandboxes(self) -> Set[str]:
        """Return the sandboxes that have links."""
        return set(self.attached)

    def sandbox_of(self, network: str, interface_index: int) -> str | None:
        """Return the sandbox behind a link."""
        return self._indexes.get((network, interface_index))

    async def close(self) -> None:
        """Does nothing."""

    async def remove_all(self) -> None:
        """Reset everything."""
        await self.sweep(set())
        self.doors.clear()
        self.external = FakeEgressDatapath(self)
        self.tunnels = FakeEncryption(self.external)
        self.ingress = FakeIngressDatapath(self)
        self.state = NodeNetworks(())
        self._underlay.nodes = {address: node for address, node in self._underlay.nodes.items() if node is not self}

    def reaches(self, sandbox_id: str, address: str, port: int, protocol: str = "TCP") -> str | None:
        """Return the sandbox that a connection from this one would reach, if any."""
        interfaces = self.attached.get(sandbox_id, ())
        best = way_out(interfaces, address)
        return None if best is None else self._from(sandbox_id, best, address, port, protocol)

    def enters(self, address: str, port: int, protocol: str = "TCP", source: str = "") -> str | None:
        """Return the sandbox that a connection of the node would reach; with a source, one from outside the node."""
        for network in self.state.networks:
            target = _published(network, address, port, protocol)
            if target is None and not source and address in network.from_node:
                target = _translated(network, address, port, protocol)
            if target is not None:
                own = node_marks(self.state.node_addresses[0])[":" in target[0]]
                return self._arrives(network, source or own, *target, protocol)
        return None

    def neighbour(self, node_address: str) -> FakeDatapath | None:
        """Return the node on the same wire with this tunnel address, possibly itself."""
        return self._underlay.nodes.get(node_address)

    def _from(
        self, sandbox_id: str, interface: AttachedInterface, address: str, port: int, protocol: str
    ) -> str | None:
        network = self._network(interface.network)
        source = own_address(interface, address)
        target = _translated(network, address, port, protocol)
        if network is None or source is None or target is None:
            return None
        address, port = target
        if address in own_addresses(interface):
            return sandbox_id
        sender = network.rules.get(source, Rules())
        if not permits(sender.egress, address, protocol, port):
            return None
        return self._arrives(network, source, address, port, protocol)

    def _arrives(self, network: NetworkState, source: str, address: str, port: int, protocol: str) -> str | None:
        holder = self._holder(network.name, address)
        if holder is not None:
            return holder if self._lets_in(network, source, address, port, protocol) else None
        return self._over_the_tunnel(network, source, address, port, protocol)

    def _over_the_tunnel(
        self, network: NetworkState, source: str, address: str, port: int, protocol: str
    ) -> str | None:
        for remote in network.remotes:
            node = self._underlay.nodes.get(remote.node_address)
            if node is None or not any(is_within(address, prefix) for prefix in remote.prefixes):
                continue
            there = next((each for each in node.state.networks if each.vni == network.vni), None)
            if there is not None and node._lets_in(there, source, address, port, protocol):
                return node._holder(there.name, address)
        return None

    def _lets_in(self, network: NetworkState, source: str, address: str, port: int, protocol: str) -> bool:
        return permits(network.rules.get(address, Rules()).ingress, source, protocol, port)

    def _holder(self, network: str, address: str) -> str | None:
        for sandbox_id, interfaces in self.attached.items():
            if any(each.network == network and address in own_addresses(each) for each in interfaces):
                return sandbox_id
        return None

    def _network(self, name: str) -> NetworkState | None:
        return next((each for each in self.state.networks if each.name == name), None)

    def _require(self, network: str) -> None:
        if self._network(network) is None:
            raise OSError(errno.ENETUNREACH, f"network {network} is not on this node")


def _has_a_user(router: socket.socket) -> bool:
    """Return True if the other end of a pair is open."""
    try:
        return bool(router.recv(1, socket.MSG_PEEK))
    except BlockingIOError:
        return True


def _published(network: NetworkState, address: str, port: int, protocol: str) -> tuple[str, int] | None:
    """Return the target of a port of the node. Only called with the node's addresses."""
    for each in network.host_ports:
        like = (":" in each.backend[0]) == (":" in address)
        if (each.protocol, each.port) == (protocol, port) and like and each.address in ("", address):
            return each.backend
    return None


def _translated(network: NetworkState | None, address: str, port: int, protocol: str) -> tuple[str, int] | None:
    """Return the destination of a packet after services; None if it is rejected."""
    for service in network.services if network else ():
        if (service.address, service.port, service.protocol) == (address, port, protocol):
            return service.backends[0] if service.backends else None
    return address, port
