"""What follows from the objects that there are, however they are kept: in a controller's caches, or in a snapshot.

Whoever keeps them says how each is found; who holds an address, who uses it, who may carry it and what is inside the
platform is worked out here, so that a controller and an explanation cannot differ about it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from ipaddress import ip_address, ip_network

from tarmac.api.networking.names import INTERNAL_NETWORK, SYSTEM_PREFIX
from tarmac.api.networking.network import Network
from tarmac.api.submariner.addressrules import bounds_of, written_as
from tarmac.api.submariner.externalservice import ExternalService
from tarmac.api.submariner.names import Address, object_name
from tarmac.api.submariner.relays import Gateway
from tarmac.api.submariner.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.decide.egress.admitting import carried_at
from tarmac.decide.egress.candidates import candidates
from tarmac.decide.egress.claims import allows, holders, is_held_by
from tarmac.decide.egress.gateways import sharing
from tarmac.decide.egress.status import owner_of
from tarmac.decide.egress.views import NodeView, PodView, ServiceView, age
from tarmac.decide.verdict import Verdict


class KnownWorld(ABC):
    """A `views.World` over objects that are found by key."""

    @abstractmethod
    def service(self, key: str) -> ServiceView | None:
        """A Service and the endpoints in its slices."""

    @abstractmethod
    def pod(self, key: str) -> PodView | None:
        """A pod that has not ended."""

    @abstractmethod
    def nodes(self) -> Mapping[str, NodeView]:
        """Every node, by name."""

    @abstractmethod
    def is_of_a_node(self, address: Address) -> bool:
        """Whether a node itself has an address."""

    @abstractmethod
    def claim(self, key: str) -> SourceIPClaim | None:
        """A claim."""

    @abstractmethod
    def source_ip(self, name: str) -> SourceIP | None:
        """An address by the name of its object."""

    @abstractmethod
    def gateway(self, name: str) -> Gateway | None:
        """The Gateway of an address."""

    @abstractmethod
    def address_class(self, name: str) -> SourceIPClass | None:
        """A class."""

    @abstractmethod
    def classes(self) -> Iterable[SourceIPClass]:
        """Every class."""

    @abstractmethod
    def labels_of(self, namespace: str) -> Mapping[str, str] | None:
        """The labels of a namespace; None when it is not there."""

    @abstractmethod
    def has_location(self, name: str) -> bool:
        """Whether a Location exists."""

    @abstractmethod
    def network(self, key: str) -> Network | None:
        """A Network."""

    @abstractmethod
    def networks_of(self, namespace: str) -> Iterable[str]:
        """The keys of the Networks of a namespace."""

    @abstractmethod
    def naming(self, claim: SourceIPClaim) -> Sequence[ExternalService]:
        """The ExternalServices that name a claim, or an address that it holds; the oldest first."""

    @abstractmethod
    def called(self, name: str) -> Iterable[ExternalService]:
        """The ExternalServices of a name, in all namespaces."""

    @abstractmethod
    def load(self, but: str) -> Mapping[str, int]:
        """How many addresses besides one each node carries."""

    def node(self, name: str) -> NodeView | None:
        """A node."""
        return self.nodes().get(name)

    def claim_holding(self, namespace: str, address: str) -> SourceIPClaim | None:
        """The claim of a namespace that holds an address."""
        found = self.source_ip(object_name(ip_address(address)))
        for reference in holders(found) if found is not None else ():
            claim = self.claim(f"{namespace}/{reference.name}") if reference.namespace == namespace else None
            if claim is not None and found is not None and is_held_by(found, claim):
                return claim
        return None

    def authorized(self, class_name: str, namespace: str) -> bool:
        """Whether a class is for a namespace. A class that is not there is told of otherwise."""
        offered = self.address_class(class_name)
        return offered is None or self.allowed(offered, namespace)

    def allowed(self, offered: SourceIPClass, namespace: str) -> bool:
        """Whether a class is for a namespace that is there."""
        labels = self.labels_of(namespace)
        return labels is not None and allows(offered.spec, namespace, labels)

    def users(self, source_ip: str) -> Sequence[ExternalService]:
        """The ExternalServices of all namespaces that hold an address and name it, oldest first."""
        found = self.source_ip(source_ip)
        users: dict[str, ExternalService] = {}
        for reference in holders(found) if found is not None else ():
            claim = self.claim(f"{reference.namespace}/{reference.name}")
            for each in self.naming(claim) if claim is not None else ():
                if each.metadata.deletion_timestamp is None:
                    users[each.metadata.uid] = each
        return sorted(users.values(), key=age)

    def candidates(self, source_ip: str) -> Sequence[NodeView]:
        """Who may carry an address, the first in line first."""
        return self.assigned(source_ip).value or ()

    def assigned(self, source_ip: str) -> Verdict[tuple[NodeView, ...]]:
        """Who may carry an address, or why nobody."""
        found = self.source_ip(source_ip)
        offered = self.address_class(found.spec.class_name) if found is not None else None
        if found is None or offered is None:
            return Verdict(None)
        owner = owner_of(self.gateway(source_ip))
        return candidates(
            offered.spec,
            found.spec.address,
            self.nodes().values(),
            location=carried_at(found, self.users(source_ip)),
            owner=owner.name if owner is not None else "",
            load=self.load(but=source_ip),
            shares=sharing(self.gateway(source_ip), owner.name) if owner is not None else None,
        )

    def inside(self, target: Address, networks: Sequence[str], namespaces: Sequence[str]) -> str | None:
        """Which part of the platform an address is in."""
        if self.is_of_a_node(target):
            return f"the addresses of nodes {target}"
        for each in self.classes():
            for written in each.spec.ranges:
                if bounds_of(written).holds(target):
                    return f'SourceIPClass "{each.metadata.name}" {written_as(written)}'
        for key in self._network_keys(networks, namespaces):
            for cidr in _ranges(self.network(key), target.version):
                if target in ip_network(cidr):
                    return f"Network {key} {cidr}"
        return None

    def _network_keys(self, networks: Sequence[str], namespaces: Sequence[str]) -> Iterator[str]:
        yield from networks
        for namespace in namespaces:
            if namespace.startswith(SYSTEM_PREFIX):
                yield INTERNAL_NETWORK
            else:
                yield from self.networks_of(namespace)


def _ranges(network: Network | None, family: int) -> set[str]:
    if network is None:
        return set()
    ipam, status = network.spec.ipam, network.status
    said = (status.ipv4_range if family == 4 else status.ipv6_range) if status is not None else ""
    return {each for each in (said, ipam.ipv4_range if family == 4 else ipam.ipv6_range) if each}
