"""Objects for reachability questions, decoded from a snapshot on demand.

Most questions concern two pods, so only those are decoded. The holder of an address is searched for in the bytes of all
Pods, which takes less than a tenth of the time of decoding them. All are decoded once a policy on the two selects pods
by labels, or a Service leads to many.
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
from tarmac.decide.reach.evaluation import Permission
from tarmac.decide.reach.members import NetworkPod, member_of
from tarmac.decide.reach.partialobjects import (
    PolicyFacts,
    ServiceFields,
    SliceFacts,
    decode_service,
    decode_slice,
    kubernetes_policy_of,
    policy_of,
)
from tarmac.decide.reach.policies import PolicyBook
from tarmac.decide.reach.policyrules import Allowance, Rules, ServiceFrontend
from tarmac.decide.reach.selecting import Labels
from tarmac.decide.reach.servicefrontends import NodeZone, ServiceFrontends, ServiceIndex
from tarmac.decide.snapshot.egressobjects import EXTERNAL, NAMESPACES, SERVICES, SLICES
from tarmac.decide.snapshot.snapshot import INSTANCES, NETWORKS, NODES, PODS, ResourceSource, Snapshot

T = TypeVar("T")

POLICIES: Final = ResourceSource(f"{NETWORKING}/networkpolicies", lambda raw: policy_of(bytes(raw)))
KUBERNETES_POLICIES: Final = ResourceSource(
    "networking.k8s.io/networkpolicies", lambda raw: kubernetes_policy_of(bytes(raw))
)
LOOKED_AT: Final[tuple[ResourceSource[Any], ...]] = tuple(
    dict.fromkeys(
        (PODS, INSTANCES, NAMESPACES, NETWORKS, NODES, SERVICES, SLICES, POLICIES, KUBERNETES_POLICIES, *EXTERNAL)
    )
)
"""The resources that must be in the snapshot."""

Holder = tuple[NetworkPod, AttachedInterface]
_FEW: Final = 4  # limit of addresses that are searched for one by one


@dataclass(frozen=True)
class _Pods:
    """All pods, decoded at the first access."""

    snapshot: Snapshot

    @cached_property
    def members(self) -> dict[str, NetworkPod]:
        found = (each for raw in self.snapshot.list(PODS.resource) if (each := _member(bytes(raw))) is not None)
        return {f"{each.namespace}/{each.name}": each for each in found}

    def each(self) -> Iterator[NetworkPod]:
        yield from self.members.values()


@dataclass(frozen=True)
class ReachWorld:
    """Pods on networks, policies and Services of a snapshot."""

    snapshot: Snapshot
    _sought: dict[tuple[str, str], Holder | None] = field(default_factory=dict[tuple[str, str], "Holder | None"])
    _books: dict[str, PolicyBook] = field(default_factory=dict[str, PolicyBook])
    _permissions: dict[int, list[tuple[Allowance, Permission]]] = field(
        default_factory=dict[int, list[tuple[Allowance, Permission]]]
    )
    _ports: dict[tuple[str, str], tuple[ServiceFrontend, ...]] = field(
        default_factory=dict[tuple[str, str], tuple[ServiceFrontend, ...]]
    )

    @cached_property
    def _pods(self) -> _Pods:
        return _Pods(self.snapshot)

    @property
    def members(self) -> dict[str, NetworkPod]:
        """All pods by namespace/name. A Pod that cannot be decoded is left out."""
        return self._pods.members

    def member(self, key: str) -> NetworkPod | None:
        """Return one pod."""
        raw = self.snapshot.get(PODS.resource, key)
        return None if raw is None else _member(bytes(raw))

    def holder(self, network: str, address: str) -> Holder | None:
        """Return the pod and the interface that have an address on a network."""
        place = network, address
        if place not in self._sought and len(self._sought) >= _FEW:
            return self._holders.get(place)
        if place not in self._sought:
            self._sought[place] = _held(self._naming(address)).get(place)
        return self._sought[place]

    def _naming(self, address: str) -> Iterator[NetworkPod]:
        """Yield the pods with an address in their encoded form."""
        text = address.encode()
        for raw in map(bytes, self.snapshot.list(PODS.resource)):
            if text in raw and (found := _member(raw)) is not None:
                yield found

    @cached_property
    def _holders(self) -> dict[tuple[str, str], Holder]:
        return _held(self.members.values())

    @cached_property
    def _policies(self) -> list[PolicyFacts]:
        return [*POLICIES.all(self.snapshot), *KUBERNETES_POLICIES.all(self.snapshot)]

    def labels(self, namespace: str) -> Labels:
        """Return the labels of a namespace."""
        return _labels(self.snapshot, namespace)

    @cached_property
    def services(self) -> dict[str, ServiceFields]:
        """All Services by namespace/name."""
        return {each.key: each for each in map(_decoded_service, self.snapshot.list(SERVICES.resource))}

    @cached_property
    def _index(self) -> ServiceIndex:
        slices: Iterable[SliceFacts] = (decode_slice(bytes(raw)) for raw in self.snapshot.list(SLICES.resource))
        return ServiceIndex(self.services.values(), slices)

    def pod(self, key: str) -> JsonObject | None:
        """Return a whole Pod."""
        return PODS.get(self.snapshot, key)

    def has_instance(self, key: str) -> bool:
        """Return True if an Instance exists, even without a Pod."""
        return self.snapshot.get(INSTANCES.resource, key) is not None

    def book(self, network: str) -> PolicyBook:
        """Return the policies for the pods of a network."""
        if network not in self._books:
            # Books refer to the pods, not to the world: a reference cycle would keep both until the garbage collector
            # runs, which stops the process for hundreds of milliseconds once all pods are decoded.
            members, labels = self._pods.each(), partial(_labels, self.snapshot)
            self._books[network] = PolicyBook(network, self._policies, members, labels)
        return self._books[network]

    def rules(self, member: NetworkPod, interface: AttachedInterface) -> Rules:
        """Return the rules of an interface's addresses."""
        return self.book(interface.network).rules(member, interface)

    def allowing(self, allowances: tuple[Allowance, ...], peer: str, protocol: str, port: int) -> Allowance | None:
        """Return the first allowance that permits a connection with a peer. Cached: many pods share the same rules."""
        if id(allowances) not in self._permissions:  # books keep the tuples alive, so an id is not reused
            self._permissions[id(allowances)] = [(each, Permission((each,))) for each in allowances]
        return next(
            (each for each, one in self._permissions[id(allowances)] if one.permits(peer, protocol, port)), None
        )

    def service_ports(self, network: str, node: str) -> tuple[ServiceFrontend, ...]:
        """Return the Service ports in a network from the perspective of a node."""
        if (network, node) not in self._ports:
            found = self.node(node) or {"metadata": {}}
            zone = (found["metadata"].get("labels") or {}).get(LABEL_ZONE, "")
            ports = ServiceFrontends(network, NodeZone(node, zone))
            ports.update(self._index.offered(network))
            self._ports[network, node] = ports.ports
        return self._ports[network, node]

    def node(self, name: str) -> JsonObject | None:
        """Return a Node."""
        return NODES.get(self.snapshot, name)

    def service_at(self, address: str) -> ServiceFields | None:
        """Return the Service with a cluster address."""
        return next((each for each in self.services.values() if address in each.addresses), None)

    def ranges(self, network: str) -> list[str]:
        """Return the address ranges of a network."""
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
    """Return the holders by network and address."""
    return {
        (interface.network, address.partition("/")[0]): (member, interface)
        for member in members
        for interface in member.interfaces
        for address in interface.addresses
    }


def _decoded_service(raw: bytes | msgspec.Raw) -> ServiceFields:
    return decode_service(bytes(raw))
