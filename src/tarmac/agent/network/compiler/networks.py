"""Computes the desired state of this node's networks from API objects.

Each network is compiled separately from its own inputs, and only when these have changed. Networks that were fastest
before come first; beyond the time limit the remaining ones keep their state until the next pass, so a tenant with many
objects delays only itself. A network that exceeds its limits is left closed, without effect on other networks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Final

from tarmac.agent.network.compiler.instancetunnels import instance_tunnels
from tarmac.agent.network.compiler.networkstate import Inputs, network_state
from tarmac.api.networking.names import RESOLVERS
from tarmac.api.networking.network import Network
from tarmac.api.networking.tunnelendpoint import TunnelEndpoint
from tarmac.base.log import log
from tarmac.datapath.interface import NetworkState, NodeNetworks
from tarmac.decide.reach.members import NetworkPod
from tarmac.decide.reach.partialobjects import PolicyFacts, ServiceFields, SliceFacts
from tarmac.decide.reach.policies import DENIED, PolicyBook
from tarmac.decide.reach.policyrules import ServiceFrontend
from tarmac.decide.reach.servicefrontends import NodeZone, Offered, ServiceFrontends, ServiceIndex

TURN_SECONDS: Final = 0.25
APPLYING_SECONDS: Final = 2e-5
"""Expected time in the kernel for each unit of a network's weight, in addition to compiling."""

_log = log("network")


@dataclass(frozen=True, slots=True)
class NetworkSnapshot:
    """API objects. Networks by namespace/name, labels by namespace, endpoints by node; `zone` is this node's."""

    members: Sequence[NetworkPod] = ()
    networks: Mapping[str, Network] = field(default_factory=dict[str, Network])
    policies: Sequence[PolicyFacts] = ()
    namespaces: Mapping[str, Mapping[str, str]] = field(default_factory=dict[str, Mapping[str, str]])
    services: Sequence[ServiceFields] = ()
    slices: Sequence[SliceFacts] = ()
    zone: str = ""
    endpoints: Mapping[str, TunnelEndpoint] = field(default_factory=dict[str, TunnelEndpoint])


@dataclass(frozen=True, slots=True)
class CompiledNetworks:
    """Desired networks; those that pods here use; reasons why parts are closed; and networks that have to wait."""

    networks: NodeNetworks
    used: Set[str]
    refusals: Mapping[str, Sequence[str]]
    late: Set[str]


@dataclass(slots=True)
class _Known:
    """A network as of its last compilation, which took `seconds`."""

    services: ServiceFrontends
    inputs: Inputs | None = None
    state: NetworkState | None = None
    offered: Sequence[Offered] | None = None
    refusals: Sequence[str] = ()
    seconds: float = 0.0


class NetworkCompiler:
    """The networks of one node. It has state, so it serves one caller at a time."""

    def __init__(self, node: str, monotonic: Callable[[], float]) -> None:
        self._node = node
        self._monotonic = monotonic
        self._known: dict[str, _Known] = {}
        self._here = NodeZone(node)
        self._outside = ServiceFrontends("", self._here)

    def compile(
        self, snapshot: NetworkSnapshot, node_addresses: Sequence[str], kept: Set[str] = frozenset()
    ) -> CompiledNetworks:
        """Compile every network that pods on this node use, and those `kept` for pods that may come."""
        by_network, index = _by_network(snapshot), ServiceIndex(snapshot.services, snapshot.slices)
        used = {name for name, members in by_network.items() if any(each.node == self._node for each in members)}
        names, policies = used | kept, _by_namespace(snapshot.policies)
        self._set_zone(snapshot.zone)
        self._known = {name: self._known.get(name) or _Known(ServiceFrontends(name, self._here)) for name in names}
        begun, late, weight = self._monotonic(), set[str](), 0
        for name in sorted(names, key=lambda each: (self._known[each].seconds, each)):
            members = by_network.get(name, [])
            inputs = _inputs(name, self._node, members, snapshot, policies, node_addresses)
            in_time = self._monotonic() - begun + weight * APPLYING_SECONDS < TURN_SECONDS
            before = self._known[name].state
            if not self._update_network(name, inputs, index.offered(name), in_time=in_time):
                late.add(name)
            elif (after := self._known[name].state) is not before and after is not None:
                weight += after.weight
        self._outside.update(index.offered(""))
        made = [known.state for name in sorted(names) if (known := self._known[name]).state is not None]
        networks = tuple(_reached_from_node(made, self._outside.ports))
        tunnels = instance_tunnels(self._node, networks, snapshot.networks, snapshot.endpoints)
        found = NodeNetworks(tuple(node_addresses), networks, self._outside.ports, tunnels)
        return CompiledNetworks(found, used, self._refusals(), late)

    def _set_zone(self, zone: str) -> None:
        """Switch to another zone, with different near endpoints.

        A network keeps its state until there is time for it.
        """
        if zone == self._here.zone:
            return
        self._here = NodeZone(self._node, zone)
        self._outside = ServiceFrontends("", self._here)
        for name, known in self._known.items():
            known.services, known.offered = ServiceFrontends(name, self._here), None

    def _update_network(self, name: str, inputs: Inputs, offered: Sequence[Offered], *, in_time: bool) -> bool:
        """Update one network. Return False if there was no time for it."""
        known = self._known[name]
        if known.inputs == inputs and known.offered == offered:
            return True
        if not in_time:
            return False
        begun = self._monotonic()
        if known.state is None or known.inputs != inputs:
            known.state, known.refusals = self._compile_rules(name, inputs)
        known.services.update(offered)
        known.state = replace(known.state, services=known.services.ports)
        # Last: a failure above makes the next pass compile this network again.
        known.inputs, known.offered, known.seconds = inputs, offered, self._monotonic() - begun
        return True

    def _compile_rules(self, name: str, inputs: Inputs) -> tuple[NetworkState, Sequence[str]]:
        try:
            book = PolicyBook(name, inputs.policies, inputs.members, inputs.labels.__getitem__)
            return network_state(name, self._node, inputs, book.rules), book.refusals
        except Exception as error:  # unexpected objects close their own network, and no other
            _log.error("network rules cannot be compiled", network=name, error=repr(error))
            return network_state(name, self._node, inputs, lambda *_: DENIED), [f"its rules are wrong: {error!r}"]

    def _refusals(self) -> dict[str, Sequence[str]]:
        found = {name: (*known.refusals, *known.services.refusals) for name, known in self._known.items()}
        return {name: refusals for name, refusals in found.items() if refusals}


def _inputs(
    name: str,
    node: str,
    members: Sequence[NetworkPod],
    snapshot: NetworkSnapshot,
    policies: Mapping[str, Sequence[PolicyFacts]],
    node_addresses: Sequence[str],
) -> Inputs:
    """Select the inputs of one network: of policies, those of namespaces with pods on it here."""
    concerned = {each.namespace for each in members if each.node == node}
    return Inputs(
        declared=snapshot.networks.get(name),
        members=members,
        policies=[policy for namespace in sorted(concerned) for policy in policies.get(namespace, ())],
        labels={each.namespace: snapshot.namespaces.get(each.namespace, {}) for each in members},
        node_addresses=tuple(node_addresses),
    )


def _by_namespace(policies: Sequence[PolicyFacts]) -> dict[str, list[PolicyFacts]]:
    found: dict[str, list[PolicyFacts]] = {}
    for policy in policies:
        found.setdefault(policy.namespace, []).append(policy)
    return found


def _by_network(snapshot: NetworkSnapshot) -> dict[str, list[NetworkPod]]:
    """Group members by the networks of their interfaces; host-network pods by the network of the node's services."""
    found: dict[str, list[NetworkPod]] = {}
    for member in snapshot.members:
        as_node = {member.as_node} & snapshot.networks.keys()
        for network in {interface.network for interface in member.interfaces} | as_node:
            found.setdefault(network, []).append(member)
    return found


def _reached_from_node(networks: Sequence[NetworkState], outside: Sequence[ServiceFrontend]) -> Iterator[NetworkState]:
    """Assign each cluster address to one network for the node: the first with a backend, else the first.

    DNS resolvers answer in every network.
    """
    chosen: dict[str, tuple[bool, str]] = {port.address: (False, "") for port in outside}
    chosen |= {address: (False, network.name) for network in networks[:1] for address in RESOLVERS}
    for network in networks:
        for port in network.services:
            place = not port.backends, network.name
            chosen[port.address] = min(chosen.get(port.address, place), place)
    led: dict[str, list[str]] = {}
    for address, (_, name) in chosen.items():
        led.setdefault(name, []).append(address)
    for network in networks:
        yield replace(network, from_node=tuple(sorted(led.get(network.name, ()))))
