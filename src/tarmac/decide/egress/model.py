"""Read model of egress over a controller's caches or a snapshot.

Subclasses implement the lookups. Holders, users and candidates of an address, and the test for targets inside the
platform, are computed here, so that a controller and an explanation cannot disagree.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network
from typing import NamedTuple

from tarmac.api.egress.addressrules import bounds_of, written_as
from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import Gateway
from tarmac.api.egress.names import Address, object_name
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.api.networking.names import INTERNAL_NETWORK, SYSTEM_PREFIX
from tarmac.api.networking.network import Network
from tarmac.decide.egress.candidates import HANDOVER_TIMEOUT, candidates
from tarmac.decide.egress.claims import allows, holders, is_held_by
from tarmac.decide.egress.gateways import sharing
from tarmac.decide.egress.sourceresolution import carried_at
from tarmac.decide.egress.status import owner_of
from tarmac.decide.egress.views import EgressPod, ServiceView, age
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.verdict import Verdict


class Handover(NamedTuple):
    """A cordoned owner that waits until its partner knows its connections."""

    owner: NodeView
    next: str
    deadline: float | None  # Unix time; None until the time of the cordon is known


class EgressModel(ABC):
    """A `views.EgressLookup` over objects looked up by key."""

    @abstractmethod
    def now(self) -> float:
        """Return the time of this view in Unix seconds."""

    @abstractmethod
    def service(self, key: str) -> ServiceView | None:
        """Return a Service and the endpoints in its slices."""

    @abstractmethod
    def allowed_from(self, key: str) -> str | None:
        """Return the namespaces that a Service grants its use to, as annotated; None if it does not exist."""

    @abstractmethod
    def pod(self, key: str) -> EgressPod | None:
        """Return a pod that has not ended."""

    @abstractmethod
    def nodes(self) -> Mapping[str, NodeView]:
        """Return every node by name."""

    @abstractmethod
    def is_of_a_node(self, address: Address) -> bool:
        """Return True if an address is a node's own."""

    @abstractmethod
    def claim(self, key: str) -> SourceIPClaim | None:
        """Return a claim."""

    @abstractmethod
    def source_ip(self, name: str) -> SourceIP | None:
        """Return a SourceIP by name."""

    @abstractmethod
    def gateway(self, name: str) -> Gateway | None:
        """Return the Gateway of an address."""

    @abstractmethod
    def address_class(self, name: str) -> SourceIPClass | None:
        """Return a SourceIPClass."""

    @abstractmethod
    def classes(self) -> Iterable[SourceIPClass]:
        """Return every SourceIPClass."""

    @abstractmethod
    def labels_of(self, namespace: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None if it does not exist."""

    @abstractmethod
    def has_location(self, name: str) -> bool:
        """Return True if a Location exists."""

    @abstractmethod
    def network(self, key: str) -> Network | None:
        """Return a Network."""

    @abstractmethod
    def networks_of(self, namespace: str) -> Iterable[str]:
        """Return the keys of the Networks of a namespace."""

    @abstractmethod
    def naming(self, claim: SourceIPClaim) -> Sequence[ExternalService]:
        """Return the ExternalServices that name a claim, or an address that it holds; oldest first."""

    @abstractmethod
    def load(self, but: str) -> Mapping[str, int]:
        """Count the addresses that each node carries, except one."""

    def node(self, name: str) -> NodeView | None:
        """Return a node."""
        return self.nodes().get(name)

    def claim_holding(self, namespace: str, address: str) -> SourceIPClaim | None:
        """Return the claim of a namespace that holds an address."""
        found = self.source_ip(object_name(ip_address(address)))
        for reference in holders(found) if found is not None else ():
            claim = self.claim(f"{namespace}/{reference.name}") if reference.namespace == namespace else None
            if claim is not None and found is not None and is_held_by(found, claim):
                return claim
        return None

    def authorized(self, class_name: str, namespace: str) -> bool:
        """Return True if a namespace may use a class. A missing class counts as allowed: it is reported separately."""
        offered = self.address_class(class_name)
        return offered is None or self.allowed(offered, namespace)

    def allowed(self, offered: SourceIPClass, namespace: str) -> bool:
        """Return True if a namespace exists and may use a class."""
        labels = self.labels_of(namespace)
        return labels is not None and allows(offered.spec, namespace, labels)

    def users(self, source_ip: str) -> Sequence[ExternalService]:
        """Return the ExternalServices, in all namespaces with a claim on an address, that name it; oldest first."""
        found = self.source_ip(source_ip)
        users: dict[str, ExternalService] = {}
        for reference in holders(found) if found is not None else ():
            claim = self.claim(f"{reference.namespace}/{reference.name}")
            for each in self.naming(claim) if claim is not None else ():
                if each.metadata.deletion_timestamp is None:
                    users[each.metadata.uid] = each
        return sorted(users.values(), key=age)

    def candidates(self, source_ip: str) -> Sequence[NodeView]:
        """Return the candidate nodes of an address in order of preference."""
        return self.assigned(source_ip).value or ()

    def assigned(self, source_ip: str) -> Verdict[tuple[NodeView, ...]]:
        """Return the candidate nodes of an address, or why there are none."""
        found = self.source_ip(source_ip)
        offered = self.address_class(found.spec.class_name) if found is not None else None
        if found is None or offered is None:
            return Verdict(None)
        owner = owner_of(self.gateway(source_ip))
        in_time = owner is not None and not self.is_overdue(owner.name)
        return candidates(
            offered.spec,
            found.spec.address,
            self.nodes().values(),
            location=carried_at(found, self.users(source_ip)),
            owner=owner.name if owner is not None else "",
            load=self.load(but=source_ip),
            shares=sharing(self.gateway(source_ip), owner.name) if owner is not None and in_time else None,
        )

    def is_overdue(self, name: str) -> bool:
        """Return True for a cordoned node that has had its time to hand over.

        The handover takes reports of the node itself: without a timeout, a stolen gateway would keep its addresses.
        """
        node = self.node(name)
        return node is not None and node.cordoned_at is not None and self.now() >= node.cordoned_at + HANDOVER_TIMEOUT

    def handover(self, source_ip: str) -> Handover | None:
        """Return the handover that an address waits for, if any."""
        owner = owner_of(self.gateway(source_ip))
        line = self.candidates(source_ip)
        node = next((each for each in line if owner is not None and each.name == owner.name), None)
        other = next((each.name for each in line if owner is not None and each.name != owner.name), "")
        if node is None or not node.cordoned or not other:
            return None
        return Handover(node, other, node.cordoned_at + HANDOVER_TIMEOUT if node.cordoned_at is not None else None)

    def inside(self, target: Address, networks: Sequence[str], namespace: str) -> str | None:
        """Name the part of the platform an address is in; None if it is outside."""
        if self.is_of_a_node(target):
            return f"the addresses of nodes {target}"
        for each in self.classes():
            for written in each.spec.ranges:
                if bounds_of(written).holds(target):
                    return f'SourceIPClass "{each.metadata.name}" {written_as(written)}'
        for key in self._network_keys(networks, namespace):
            for cidr in _ranges(self.network(key), target.version):
                if target in ip_network(cidr):
                    return f"Network {key} {cidr}"
        return None

    def _network_keys(self, networks: Sequence[str], namespace: str) -> Iterator[str]:
        yield from networks
        if namespace.startswith(SYSTEM_PREFIX):
            yield INTERNAL_NETWORK
        else:
            yield from self.networks_of(namespace)


def _ranges(network: Network | None, family: int) -> set[str]:
    if network is None:
        return set()
    ipam, status = network.spec.ipam, network.status
    current = (status.ipv4_range if family == 4 else status.ipv6_range) if status is not None else ""
    return {each for each in (current, ipam.ipv4_range if family == 4 else ipam.ipv6_range) if each}
