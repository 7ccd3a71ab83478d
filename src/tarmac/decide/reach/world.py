"""What the network question looks at, read from a snapshot as far as it is asked for.

Most questions are about two pods, so those are read, and of the others nothing: whoever has an address is searched for
in the bytes of all Pods, which takes less than a tenth of the time that reading them does. All are read once a policy
about the two means pods by their labels, or a Service leads to many.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import Any, Final, TypeVar

import msgspec

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.api.networking.names import GROUP as NETWORKING
from tarmac.api.networking.names import LABEL_ZONE
from tarmac.api.schema import JsonObject
from tarmac.decide.reach.allowances import Allowance, Rules, ServicePort
from tarmac.decide.reach.facts import PolicyFacts, ServiceFacts, SliceFacts, decode_service, decode_slice, policy_of
from tarmac.decide.reach.members import NetworkPod, member_of
from tarmac.decide.reach.permitting import Permission
from tarmac.decide.reach.policies import PolicyBook
from tarmac.decide.reach.selecting import Labels
from tarmac.decide.reach.services import Here, ServiceIndex, ServicePorts
from tarmac.decide.snapshot.external import EXTERNAL, NAMESPACES, SERVICES, SLICES
from tarmac.decide.snapshot.snapshot import INSTANCES, NETWORKS, NODES, PODS, ResourceSource, Snapshot

T = TypeVar("T")

POLICIES: Final = ResourceSource(f"{NETWORKING}/networkpolicies", lambda raw: policy_of(bytes(raw)))
LOOKED_AT: Final[tuple[ResourceSource[Any], ...]] = tuple(
    dict.fromkeys((PODS, INSTANCES, NAMESPACES, NETWORKS, NODES, SERVICES, SLICES, POLICIES, *EXTERNAL))
)
"""What must be there to answer."""

Holder = tuple[NetworkPod, AttachedInterface]
_FEW: Final = 4  # addresses that are searched for one by one


@dataclass(frozen=True)
class _Pods:
    """All of them, read when the first is asked for."""

    snapshot: Snapshot

    @cached_property
    def members(self) -> dict[str, NetworkPod]:
        found = (each for raw in self.snapshot.list(PODS.resource) if (each := _member(bytes(raw))) is not None)
        return {f"{each.namespace}/{each.name}": each for each in found}

    def each(self) -> Iterator[NetworkPod]:
        yield from self.members.values()


@dataclass(frozen=True)
class ReachWorld:
    """Pods on networks, policies, Services."""

    snapshot: Snapshot
    _sought: dict[tuple[str, str], Holder | None] = field(default_factory=dict[tuple[str, str], "Holder | None"])
    _books: dict[str, PolicyBook] = field(default_factory=dict[str, PolicyBook])
    _permissions: dict[int, list[tuple[Allowance, Permission]]] = field(
        default_factory=dict[int, list[tuple[Allowance, Permission]]]
    )
    _ports: dict[tuple[str, str], tuple[ServicePort, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[ServicePort, ...]]
    )

    @cached_property
    def _pods(self) -> _Pods:
        return _Pods(self.snapshot)

    @property
    def members(self) -> dict[str, NetworkPod]:
        """By namespace/name. A Pod that nobody can read is none."""
        return self._pods.members

    def member(self, key: str) -> NetworkPod | None:
        """One of them."""
        raw = self.snapshot.get(PODS.resource, key)
        return None if raw is None else _member(bytes(raw))

    def holder(self, network: str, address: str) -> Holder | None:
        """Who has an address on a network, and by which interface."""
        place = network, address
        if place not in self._sought and len(self._sought) >= _FEW:
            return self._holders.get(place)
        if place not in self._sought:
            self._sought[place] = _held(self._naming(address)).get(place)
        return self._sought[place]

    def _naming(self, address: str) -> Iterator[NetworkPod]:
        """The members in whose bytes an address stands."""
        text = address.encode()
        for raw in map(bytes, self.snapshot.list(PODS.resource)):
            if text in raw and (found := _member(raw)) is not None:
                yield found

    @cached_property
    def _holders(self) -> dict[tuple[str, str], Holder]:
        return _held(self.members.values())

    @cached_property
    def _policies(self) -> list[PolicyFacts]:
        return list(POLICIES.all(self.snapshot))

    def labels(self, namespace: str) -> Labels:
        """Of a namespace."""
        return _labels(self.snapshot, namespace)

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
            # Books know the pods and not the world: in a circle both would wait for a collection of garbage, which
            # takes hundreds of milliseconds of everybody's time when all pods were read.
            members, labels = self._pods.each(), partial(_labels, self.snapshot)
            self._books[network] = PolicyBook(network, self._policies, members, labels)
        return self._books[network]

    def rules(self, member: NetworkPod, interface: AttachedInterface) -> Rules:
        """What the addresses of an interface may take part in."""
        return self.book(interface.network).rules(member, interface)

    def allowing(self, allowances: tuple[Allowance, ...], peer: str, protocol: str, port: int) -> Allowance | None:
        """The first that lets a connection with a peer be. Ready to be asked again: many pods have the same rules."""
        if id(allowances) not in self._permissions:  # books keep what they make as long as we keep them
            self._permissions[id(allowances)] = [(each, Permission((each,))) for each in allowances]
        return next(
            (each for each, one in self._permissions[id(allowances)] if one.permits(peer, protocol, port)), None
        )

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


def _labels(snapshot: Snapshot, namespace: str) -> Labels:
    found = NAMESPACES.get(snapshot, namespace)
    return {} if found is None else found["metadata"].get("labels") or {}


def _held(members: Iterable[NetworkPod]) -> dict[tuple[str, str], Holder]:
    """By network and address."""
    return {
        (interface.network, address.partition("/")[0]): (member, interface)
        for member in members
        for interface in member.interfaces
        for address in interface.addresses
    }


def _decoded_service(raw: bytes | msgspec.Raw) -> ServiceFacts:
    return decode_service(bytes(raw))
