"""Computes the desired state of one network on a node, except for its services."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.network import Network
from tarmac.datapath.interface import HostPort, NetworkState, Remote
from tarmac.decide.reach.members import NetworkPod
from tarmac.decide.reach.partialobjects import PolicyFacts
from tarmac.decide.reach.policyrules import Rules


@dataclass(frozen=True, slots=True)
class Inputs:
    """Inputs of a network: its pods on all nodes, the policies that may select those here, and labels of namespaces."""

    declared: Network | None
    members: Sequence[NetworkPod]
    policies: Sequence[PolicyFacts]
    labels: Mapping[str, Mapping[str, str]]
    node_addresses: tuple[str, ...]


def network_state(
    name: str, node: str, inputs: Inputs, rules: Callable[[NetworkPod, AttachedInterface], Rules]
) -> NetworkState:
    """Return the network, given the rules of a pod's interface.

    `rules` of the result has every local address, including unrestricted ones.
    """
    declared, members = inputs.declared, inputs.members
    status = declared.status if declared else None
    interfaces = [each for member in members for each in member.interfaces if each.network == name]
    ranges = (status.ipv4_range, status.ipv6_range) if status else ()
    here = [member for member in members if member.node == node]
    return NetworkState(
        name=name,
        vni=(status.vni if status else 0) or next((each.vni for each in interfaces), 0),
        mtu=_mtu(name, here) or (declared.spec.mtu if declared else 0),
        ranges=tuple(each for each in ranges if each),
        remotes=_remotes(name, node, inputs),
        rules={
            address.partition("/")[0]: found
            for member in here
            for interface in member.interfaces
            if interface.network == name
            for found in (rules(member, interface),)
            for address in interface.addresses
        },
        host_ports=tuple(sorted(_host_ports(name, here))),
        pods={each: member.uid for member in here for each in member.addresses(name)},
    )


@lru_cache(maxsize=1 << 12)
def is_address(written: str) -> bool:
    """Return True if the text is an address in canonical form."""
    try:
        return str(ip_address(written)) == written
    except ValueError:
        return False


def _mtu(name: str, here: Sequence[NetworkPod]) -> int:
    """Return the largest MTU that pods here were given, since each pod has its own limit."""
    return max((each.mtu for member in here for each in member.interfaces if each.network == name), default=0)


def _remotes(name: str, node: str, inputs: Inputs) -> tuple[Remote, ...]:
    six = ":" in inputs.node_addresses[0] if inputs.node_addresses else False
    found: dict[str, list[str]] = {}
    for member in inputs.members:
        # Of the family that our tunnels use. The value comes from other nodes and may be anything.
        host = next((each for each in member.hosts if (":" in each) == six and is_address(each)), "")
        if member.node != node and host:
            found.setdefault(host, []).extend(f"{each}/{128 if ':' in each else 32}" for each in member.addresses(name))
    return tuple(Remote(host, tuple(sorted(prefixes))) for host, prefixes in sorted(found.items()))


def _host_ports(name: str, here: Sequence[NetworkPod]) -> Iterator[HostPort]:
    """Yield host ports. They lead to a pod's first address of their family, if that is on this network."""
    for member in here:
        if not member.published:
            continue
        addresses = [(each.network, own.partition("/")[0]) for each in member.interfaces for own in each.addresses]
        first = {6 if ":" in address else 4: (network, address) for network, address in reversed(addresses)}
        for port in member.published:
            network, address = first.get(port.family, ("", ""))
            if network == name:
                yield HostPort(port.protocol, port.host_port, (address, port.port), port.address)
