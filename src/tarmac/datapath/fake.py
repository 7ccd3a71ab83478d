"""A datapath without a kernel: it remembers what it was told, and can say whom a packet would reach.

Nodes of one `FakeUnderlay` know each other by address, as nodes on a wire do. `reaches` follows a packet the way the
real thing would: out of the pod by its routes, through services and policies, over the tunnel, to whoever has the
address.
"""

from __future__ import annotations

import asyncio
import errno
import socket
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from ipaddress import ip_address, ip_interface, ip_network
from typing import Literal

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.datapath.interface import Attached, NetworkState, NodeNetworks, Rules, ignore
from tarmac.datapath.marks import node_marks
from tarmac.datapath.permitting import permits


@dataclass(slots=True)
class FakeUnderlay:
    """Nodes by the address of their tunnel ends."""

    nodes: dict[str, FakeDatapath] = field(default_factory=dict[str, "FakeDatapath"])


class FakeDatapath:
    """One node. `doors` leads `connect` from an address and port of a network to a server that is really there."""

    def __init__(self, underlay: FakeUnderlay | None = None) -> None:
        self.doors: dict[tuple[str, str, int], tuple[str, int]] = {}
        self.attached: dict[str, tuple[AttachedInterface, ...]] = {}
        self.state = NodeNetworks(())
        self._underlay = underlay or FakeUnderlay()
        self._indexes: dict[tuple[str, int], str] = {}

    async def attach(self, sandbox_id: str, namespace: str, interfaces: Sequence[AttachedInterface]) -> Attached:
        """Remember the pod's interfaces."""
        if sandbox_id not in self.attached:
            for interface in interfaces:
                self._indexes[interface.network, len(self._indexes) + 2] = sandbox_id
        self.attached[sandbox_id] = tuple(interfaces)
        return Attached(tuple(interfaces))

    async def detach(self, sandbox_id: str) -> None:
        """Forget them."""
        self.attached.pop(sandbox_id, None)
        self._indexes = {key: of for key, of in self._indexes.items() if of != sandbox_id}

    async def apply(
        self, state: NodeNetworks, *, verify: bool = True, made: Callable[[NetworkState], None] = ignore
    ) -> Mapping[str, Exception]:
        """Remember the networks, and those that pods still use."""
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
        """Forget sandboxes that are not alive."""
        dead = sorted(self.attached.keys() - live)
        for sandbox_id in dead:
            await self.detach(sandbox_id)
        return dead

    async def has_rules_about(self, pod: str, interfaces: Sequence[AttachedInterface]) -> bool:
        """Whether the networks name the pod at all its addresses."""
        networks = {network.name: network.pods for network in self.state.networks}
        return all(
            networks.get(interface.network, {}).get(address) == pod
            for interface in interfaces
            for address in _addresses(interface)
        )

    async def connect(self, network: str, address: str, port: int, timeout: float) -> socket.socket:
        """A socket connected through a door, if there is one."""
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
        """A listening socket on the loopback, with a door that leads to it."""
        self._require(network)
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM if kind == "tcp" else socket.SOCK_DGRAM)
        made.setblocking(False)
        made.bind(("127.0.0.1", 0))
        if kind == "tcp":
            made.listen()
        self.doors[network, address, port] = made.getsockname()
        return made

    def sandboxes(self) -> Set[str]:
        """The sandboxes that have links."""
        return set(self.attached)

    def sandbox_of(self, network: str, interface_index: int) -> str | None:
        """The sandbox behind a link."""
        return self._indexes.get((network, interface_index))

    async def close(self) -> None:
        """Nothing is open."""

    async def remove_all(self) -> None:
        """Forget everything."""
        self.attached.clear()
        self._indexes.clear()
        self.doors.clear()
        self.state = NodeNetworks(())
        self._underlay.nodes = {address: node for address, node in self._underlay.nodes.items() if node is not self}

    def reaches(self, sandbox_id: str, address: str, port: int, protocol: str = "TCP") -> str | None:
        """The sandbox that a connection from this one would come to, if any."""
        interfaces = self.attached.get(sandbox_id, ())
        best = max(interfaces, key=lambda each: _nearness(each, address), default=None)
        if best is None or _nearness(best, address) < 0:
            return None
        return self._from(sandbox_id, best, address, port, protocol)

    def enters(self, address: str, port: int, protocol: str = "TCP", source: str = "") -> str | None:
        """The sandbox that a connection of the node itself would come to; with a source, one from outside of it."""
        for network in self.state.networks:
            target = _published(network, address, port, protocol)
            if target is None and not source and address in network.from_node:
                target = _translated(network, address, port, protocol)
            if target is not None:
                own = node_marks(self.state.node_addresses[0])[":" in target[0]]
                return self._arrives(network, source or own, *target, protocol)
        return None

    def _from(
        self, sandbox_id: str, interface: AttachedInterface, address: str, port: int, protocol: str
    ) -> str | None:
        network = self._network(interface.network)
        source = _own_address(interface, address)
        target = _translated(network, address, port, protocol)
        if network is None or source is None or target is None:
            return None
        address, port = target
        if address in _addresses(interface):
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
            if node is None or not any(_within(address, prefix) for prefix in remote.prefixes):
                continue
            there = next((each for each in node.state.networks if each.vni == network.vni), None)
            if there is not None and node._lets_in(there, source, address, port, protocol):
                return node._holder(there.name, address)
        return None

    def _lets_in(self, network: NetworkState, source: str, address: str, port: int, protocol: str) -> bool:
        return permits(network.rules.get(address, Rules()).ingress, source, protocol, port)

    def _holder(self, network: str, address: str) -> str | None:
        for sandbox_id, interfaces in self.attached.items():
            if any(each.network == network and address in _addresses(each) for each in interfaces):
                return sandbox_id
        return None

    def _network(self, name: str) -> NetworkState | None:
        return next((each for each in self.state.networks if each.name == name), None)

    def _require(self, network: str) -> None:
        if self._network(network) is None:
            raise OSError(errno.ENETUNREACH, f"network {network} is not on this node")


def _addresses(interface: AttachedInterface) -> set[str]:
    return {str(ip_interface(each).ip) for each in interface.addresses}


def _own_address(interface: AttachedInterface, towards: str) -> str | None:
    version = ip_address(towards).version
    return next((each for each in sorted(_addresses(interface)) if ip_address(each).version == version), None)


def _nearness(interface: AttachedInterface, address: str) -> int:
    """The length of the longest prefix by which an interface leads to an address; -1 when it does not."""
    subnets = [str(ip_interface(each).network) for each in interface.addresses]
    prefixes = [prefix for prefix in (*subnets, *interface.routes) if _within(address, prefix)]
    return max((ip_network(prefix).prefixlen for prefix in prefixes), default=-1)


def _within(address: str, prefix: str) -> bool:
    return ip_address(address) in ip_network(prefix)


def _published(network: NetworkState, address: str, port: int, protocol: str) -> tuple[str, int] | None:
    """Where a port of the node leads. Only the node's addresses are ever asked about."""
    for each in network.host_ports:
        like = (":" in each.backend[0]) == (":" in address)
        if (each.protocol, each.port) == (protocol, port) and like and each.address in ("", address):
            return each.backend
    return None


def _translated(network: NetworkState | None, address: str, port: int, protocol: str) -> tuple[str, int] | None:
    """Where a packet goes after services; None when it is refused."""
    for service in network.services if network else ():
        if (service.address, service.port, service.protocol) == (address, port, protocol):
            return service.backends[0] if service.backends else None
    return address, port
