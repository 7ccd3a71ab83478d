"""What the network question looks at, read once from a snapshot."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.names import GROUP as NETWORKING
from tarmac.api.networking.names import LABEL_ZONE
from tarmac.api.schema import JsonObject
from tarmac.decide.reach.allowances import Rules, ServicePort
from tarmac.decide.reach.facts import PolicyFacts, ServiceFacts, SliceFacts, decode_service, decode_slice, policy_of
from tarmac.decide.reach.members import NetworkPod, member_of
from tarmac.decide.reach.policies import PolicyBook
from tarmac.decide.reach.services import Here, ServiceIndex, ServicePorts
from tarmac.decide.snapshot.external import EXTERNAL, NAMESPACES, SERVICES, SLICES
from tarmac.decide.snapshot.snapshot import INSTANCES, NETWORKS, NODES, PODS, ResourceSource, Snapshot

T = TypeVar("T")

POLICIES: Final = ResourceSource(f"{NETWORKING}/networkpolicies", lambda raw: policy_of(bytes(raw)))
LOOKED_AT: Final[tuple[ResourceSource[Any], ...]] = tuple(
    dict.fromkeys((PODS, INSTANCES, NAMESPACES, NETWORKS, NODES, SERVICES, SLICES, POLICIES, *EXTERNAL))
)
"""What must be there to answer."""


@dataclass(frozen=True)
class ReachWorld:
    """Pods on networks, policies, Services. What takes long is worked out when it is first asked for."""

    snapshot: Snapshot
    _books: dict[str, PolicyBook] = field(default_factory=dict[str, PolicyBook])
    _ports: dict[tuple[str, str], tuple[ServicePort, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[ServicePort, ...]]
    )

    @cached_property
    def members(self) -> dict[str, NetworkPod]:
        """By namespace/name. A Pod that nobody can read is none."""
        found = (each for raw in self.snapshot.list(PODS.resource) if (each := _member(bytes(raw))) is not None)
        return {f"{each.namespace}/{each.name}": each for each in found}

    @cached_property
    def holders(self) -> dict[tuple[str, str], tuple[NetworkPod, AttachedInterface]]:
        """By network and address."""
        return {
            (interface.network, address.partition("/")[0]): (member, interface)
            for member in self.members.values()
            for interface in member.interfaces
            for address in interface.addresses
        }

    @cached_property
    def policies(self) -> dict[str, list[PolicyFacts]]:
        """By namespace."""
        found: dict[str, list[PolicyFacts]] = {}
        for each in POLICIES.all(self.snapshot):
            found.setdefault(each.namespace, []).append(each)
        return found

    @cached_property
    def labels(self) -> dict[str, dict[str, str]]:
        """Of namespaces."""
        return {
            each["metadata"]["name"]: each["metadata"].get("labels") or {} for each in NAMESPACES.all(self.snapshot)
        }

    @cached_property
    def services(self) -> dict[str, ServiceFacts]:
        """By namespace/name."""
        return {each.key: each for each in map(_decoded_service, self.snapshot.list(SERVICES.resource))}

    @cached_property
    def _index(self) -> ServiceIndex:
        slices: Iterable[SliceFacts] = (decode_slice(bytes(raw)) for raw in self.snapshot.list(SLICES.resource))
        return ServiceIndex(self.services.values(), slices)

    def pod(self, key: str) -> JsonObject | None:
        """A Pod, whole."""
        return PODS.get(self.snapshot, key)

    def has_instance(self, key: str) -> bool:
        """Whether there is an Instance, be it without a Pod yet."""
        return self.snapshot.get(INSTANCES.resource, key) is not None

    def book(self, network: str) -> PolicyBook:
        """The policies of everybody on a network."""
        if network not in self._books:
            members = [each for each in self.members.values() if each.addresses(network)]
            spaces = {each.namespace for each in members}
            policies = [policy for namespace in sorted(spaces) for policy in self.policies.get(namespace, ())]
            self._books[network] = PolicyBook(
                network, policies, members, {each: self.labels.get(each, {}) for each in spaces}
            )
        return self._books[network]

    def rules(self, member: NetworkPod, interface: AttachedInterface) -> Rules:
        """What the addresses of an interface may take part in."""
        return self.book(interface.network).rules(member, interface)

    def service_ports(self, network: str, node: str) -> tuple[ServicePort, ...]:
        """The cluster addresses there are in a network, as a node sees them."""
        if (network, node) not in self._ports:
            found = NODES.get(self.snapshot, node) or {"metadata": {}}
            zone = (found["metadata"].get("labels") or {}).get(LABEL_ZONE, "")
            ports = ServicePorts(network, Here(node, zone))
            ports.update(self._index.offered(network))
            self._ports[network, node] = ports.ports
        return self._ports[network, node]

    def service_at(self, address: str) -> ServiceFacts | None:
        """The Service that has a cluster address."""
        return next((each for each in self.services.values() if address in each.addresses), None)

    def ranges(self, network: str) -> list[str]:
        """What is a network's own."""
        found = NETWORKS.get(self.snapshot, network)
        status = found.status if found is not None else None
        return [each for each in (status.ipv4_range, status.ipv6_range) if each] if status is not None else []


def _member(raw: bytes) -> NetworkPod | None:
    try:
        return member_of(raw)
    except msgspec.MsgspecError:
        return None


def _decoded_service(raw: bytes | msgspec.Raw) -> ServiceFacts:
    return decode_service(bytes(raw))
