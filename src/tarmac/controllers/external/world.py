"""The world that `decide.egress` looks at, made of caches. What nobody asks for is not decoded."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tarmac.api.networking.network import Network
from tarmac.api.submariner.externalservice import ExternalService
from tarmac.api.submariner.names import NAMESPACE, Address
from tarmac.api.submariner.relays import Gateway
from tarmac.api.submariner.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.client.cache import by_namespace
from tarmac.client.targets.typed import LOCATIONS, NETWORKS
from tarmac.client.targets.untyped import ENDPOINT_SLICES, PODS, SERVICES
from tarmac.controllers.context import Context
from tarmac.controllers.endpointslices import BY_SERVICE, service_of
from tarmac.controllers.external.stock import BY_NAME, Stock
from tarmac.decide.egress.known import KnownWorld
from tarmac.decide.egress.reading import pod_view, service_view
from tarmac.decide.egress.views import NodeView, PodView, ServiceView

BY_NAMESPACE = "namespace"


class CachedWorld(KnownWorld):
    """Everything there is, as this process knows it."""

    def __init__(self, context: Context, stock: Stock) -> None:
        informers = context.informers
        self._stock = stock
        self.services = informers.informer(SERVICES)
        self.slices = informers.informer(ENDPOINT_SLICES)
        self.slices.add_index(BY_SERVICE, service_of)
        self.pods = informers.informer(PODS)
        self.known_networks = informers.informer(NETWORKS)
        self.known_networks.add_index(BY_NAMESPACE, by_namespace)
        self.locations = informers.informer(LOCATIONS)

    def service(self, key: str) -> ServiceView | None:
        """A Service and the endpoints in its slices."""
        found = self.services.get(key)
        slices = (item.object for item in self.slices.indexed(BY_SERVICE, key))
        return service_view(found, slices) if found is not None else None

    def pod(self, key: str) -> PodView | None:
        """A pod that has not ended."""
        found = self.pods.get(key)
        return pod_view(found) if found is not None else None

    def nodes(self) -> Mapping[str, NodeView]:
        """Every node, by name."""
        return self._stock.nodes_seen.views

    def is_of_a_node(self, address: Address) -> bool:
        """Whether a node itself has an address."""
        return self._stock.nodes_seen.have(address)

    def claim(self, key: str) -> SourceIPClaim | None:
        """A claim."""
        return self._stock.claims.get(key)

    def source_ip(self, name: str) -> SourceIP | None:
        """An address by the name of its object."""
        return self._stock.source_ips.get(name)

    def gateway(self, name: str) -> Gateway | None:
        """The Gateway of an address."""
        return self._stock.gateways.get(f"{NAMESPACE}/{name}")

    def address_class(self, name: str) -> SourceIPClass | None:
        """A class."""
        return self._stock.classes.get(name)

    def classes(self) -> Iterable[SourceIPClass]:
        """Every class."""
        return (item.object for item in self._stock.classes.cache.items())

    def labels_of(self, namespace: str) -> Mapping[str, str] | None:
        """The labels of a namespace; None when it is not there."""
        found = self._stock.namespaces.get(namespace)
        return None if found is None else found["metadata"].get("labels") or {}

    def has_location(self, name: str) -> bool:
        """Whether a Location exists."""
        return name in self.locations.cache

    def network(self, key: str) -> Network | None:
        """A Network."""
        return self.known_networks.get(key)

    def networks_of(self, namespace: str) -> Iterable[str]:
        """The keys of the Networks of a namespace."""
        return (item.key for item in self.known_networks.indexed(BY_NAMESPACE, namespace))

    def naming(self, claim: SourceIPClaim) -> Sequence[ExternalService]:
        """The ExternalServices that name a claim, or an address that it holds; the oldest first."""
        return self._stock.users(claim)

    def called(self, name: str) -> Iterable[ExternalService]:
        """The ExternalServices of a name, in all namespaces."""
        return (item.object for item in self._stock.services.indexed(BY_NAME, name))

    def load(self, but: str) -> Mapping[str, int]:
        """How many addresses besides one each node carries."""
        return self._stock.carriers.load(but)
