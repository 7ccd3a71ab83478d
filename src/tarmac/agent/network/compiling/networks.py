"""What this node's networks should be, given what the API says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from tarmac.agent.network.compiling.facts import Policy, Service, Slice
from tarmac.agent.network.compiling.members import Member
from tarmac.agent.network.compiling.policies import PolicyBook
from tarmac.agent.network.compiling.services import by_service, service_ports
from tarmac.api.networking.names import RESOLVERS
from tarmac.api.networking.network import Network
from tarmac.datapath.interface import HostPort, NetworkState, NodeNetworks, Remote, Rules, ServicePort


@dataclass(frozen=True, slots=True)
class Snapshot:
    """What the API says. Networks by namespace/name, labels by namespace."""

    members: Sequence[Member] = ()
    networks: Mapping[str, Network] = field(default_factory=dict[str, Network])
    policies: Sequence[Policy] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    services: Sequence[Service] = ()
    slices: Sequence[Slice] = ()


def compile_networks(
    snapshot: Snapshot, node: str, node_addresses: Sequence[str], kept: Set[str] = frozenset()
) -> NodeNetworks:
    """Every network that a pod on this node has to do with, and those `kept` for pods that may come."""
    found = _by_network(snapshot)
    slices = by_service(snapshot.slices)
    compiler = _Compiler(snapshot, node, node_addresses, slices)
    names = sorted(_on(node, found) | kept)
    outside = service_ports("", node, snapshot.services, slices)
    networks = [compiler.network(name, found.get(name, [])) for name in names]
    return NodeNetworks(tuple(node_addresses), tuple(_reached_from_node(networks, outside)), outside)


def networks_on(snapshot: Snapshot, node: str) -> set[str]:
    """The networks that pods on a node have to do with."""
    return _on(node, _by_network(snapshot))


def _on(node: str, found: Mapping[str, Sequence[Member]]) -> set[str]:
    return {network for network, members in found.items() if any(member.node == node for member in members)}


def _by_network(snapshot: Snapshot) -> dict[str, list[Member]]:
    """Members by the networks of their interfaces; those that are part of their node, where it finds services."""
    found: dict[str, list[Member]] = {}
    for member in snapshot.members:
        as_node = {member.as_node} & snapshot.networks.keys()
        for network in {interface.network for interface in member.interfaces} | as_node:
            found.setdefault(network, []).append(member)
    return found


def _reached_from_node(networks: Sequence[NetworkState], outside: Sequence[ServicePort]) -> Iterator[NetworkState]:
    """Each cluster address leads the node into one network: the first where somebody answers, else the first.

    Whoever answers for names does so in every network.
    """
    chosen: dict[str, tuple[bool, str]] = {port.address: (False, "") for port in outside}
    chosen |= {address: (False, network.name) for network in networks[:1] for address in RESOLVERS}
    for network in networks:
        for port in network.services:
            place = not port.backends, network.name
            chosen[port.address] = min(chosen.get(port.address, place), place)
    for network in networks:
        own = sorted(address for address, (_, name) in chosen.items() if name == network.name)
        yield replace(network, from_node=tuple(own))


@dataclass(frozen=True, slots=True)
class _Compiler:
    snapshot: Snapshot
    node: str
    node_addresses: Sequence[str]
    slices: Mapping[str, Sequence[Slice]]

    def network(self, name: str, members: Sequence[Member]) -> NetworkState:
        """One network, given the pods on it anywhere."""
        declared = self.snapshot.networks.get(name)
        status = declared.status if declared else None
        interfaces = [each for member in members for each in member.interfaces if each.network == name]
        ranges = (status.ipv4_range, status.ipv6_range) if status else ()
        return NetworkState(
            name=name,
            vni=(status.vni if status else 0) or next((each.vni for each in interfaces), 0),
            mtu=self._mtu(name, members) or (declared.spec.mtu if declared else 0),
            ranges=tuple(each for each in ranges if each),
            remotes=self._remotes(name, members),
            rules=self._rules(name, members),
            services=service_ports(name, self.node, self.snapshot.services, self.slices),
            host_ports=tuple(sorted(self._host_ports(name, members))),
            pods={
                each: member.uid for member in members if member.node == self.node for each in member.addresses(name)
            },
        )

    def _mtu(self, name: str, members: Sequence[Member]) -> int:
        """What the pods here were told; the largest, since each has its own limit."""
        here = [member for member in members if member.node == self.node]
        return max((each.mtu for member in here for each in member.interfaces if each.network == name), default=0)

    def _remotes(self, name: str, members: Sequence[Member]) -> tuple[Remote, ...]:
        found: dict[str, list[str]] = {}
        for member in members:
            host = self._host(member)
            if member.node != self.node and host:
                found.setdefault(host, []).extend(
                    f"{each}/{128 if ':' in each else 32}" for each in member.addresses(name)
                )
        return tuple(Remote(host, tuple(sorted(prefixes))) for host, prefixes in sorted(found.items()))

    def _host(self, member: Member) -> str:
        """The address of a pod's node of the family that this node's tunnels use."""
        six = ":" in self.node_addresses[0] if self.node_addresses else False
        return next((each for each in member.hosts if (":" in each) == six), "")

    def _host_ports(self, name: str, members: Sequence[Member]) -> Iterator[HostPort]:
        """Ports lead to a pod's first address of their family, if that is on this network."""
        for member in members:
            if member.node != self.node or not member.published:
                continue
            addresses = [(each.network, own.partition("/")[0]) for each in member.interfaces for own in each.addresses]
            first = {6 if ":" in address else 4: (network, address) for network, address in reversed(addresses)}
            for port in member.published:
                network, address = first.get(port.family, ("", ""))
                if network == name:
                    yield HostPort(port.protocol, port.host_port, (address, port.port), port.address)

    def _rules(self, name: str, members: Sequence[Member]) -> dict[str, Rules]:
        """Rules of every local address, those that are not restricted included."""
        book = PolicyBook(name, self.snapshot.policies, members, self.snapshot.namespaces)
        return {
            address.partition("/")[0]: rules
            for member in members
            if member.node == self.node
            for interface in member.interfaces
            if interface.network == name
            for rules in (book.rules(member, interface),)
            for address in interface.addresses
        }
