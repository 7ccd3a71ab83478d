"""The read model of `decide.egress`, backed by caches. Objects are decoded only on demand."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import Gateway
from tarmac.api.egress.names import NAMESPACE, Address
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.api.networking.network import Network
from tarmac.client.cache import by_namespace
from tarmac.client.targets.typed import LOCATIONS, NETWORKS
from tarmac.client.targets.untyped import ENDPOINT_SLICES, PODS, SERVICES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.egress.caches import EgressCaches
from tarmac.controllers.endpointslices import BY_SERVICE, service_of
from tarmac.decide.egress.model import EgressModel
from tarmac.decide.egress.reading import allowed_from, pod_view, service_view
from tarmac.decide.egress.views import EgressPod, ServiceView
from tarmac.decide.pooled.nodeview import NodeView

BY_NAMESPACE = "namespace"


class CachedEgressModel(EgressModel):
    """The objects of external services, as this process knows them."""

    def __init__(self, context: ControllerContext, caches: EgressCaches) -> None:
        informers = context.informers
        self._caches = caches
        self.services = informers.informer(SERVICES)
        self.slices = informers.informer(ENDPOINT_SLICES)
        self.slices.add_index(BY_SERVICE, service_of)
        self.pods = informers.informer(PODS)
        self.known_networks = informers.informer(NETWORKS)
        self.known_networks.add_index(BY_NAMESPACE, by_namespace)
        self.locations = informers.informer(LOCATIONS)

    def now(self) -> float:
        """Return the present time."""
        return self._caches.clock.now()

    def service(self, key: str) -> ServiceView | None:
        """Return a Service with the endpoints of its slices."""
        found = self.services.get(key)
        slices = (item.object for item in self.slices.indexed(BY_SERVICE, key))
        return service_view(found, slices) if found is not None else None

    def allowed_from(self, key: str) -> str | None:
        """Return the namespaces that a Service grants its use to, as annotated; None if it does not exist."""
        found = self.services.get(key)
        return allowed_from(found) if found is not None else None

    def pod(self, key: str) -> EgressPod | None:
        """Return a pod that has not ended."""
        found = self.pods.get(key)
        return pod_view(found) if found is not None else None

    def nodes(self) -> Mapping[str, NodeView]:
        """Return every node, by name."""
        return self._caches.node_views.views

    def is_of_a_node(self, address: Address) -> bool:
        """Return True if the address is a node's own."""
        return self._caches.node_views.have(address)

    def claim(self, key: str) -> SourceIPClaim | None:
        """Return a claim by key."""
        return self._caches.claims.get(key)

    def source_ip(self, name: str) -> SourceIP | None:
        """Return an address by the name of its object."""
        return self._caches.source_ips.get(name)

    def gateway(self, name: str) -> Gateway | None:
        """Return the Gateway of an address."""
        return self._caches.gateways.get(f"{NAMESPACE}/{name}")

    def address_class(self, name: str) -> SourceIPClass | None:
        """Return a class by name."""
        return self._caches.classes.get(name)

    def classes(self) -> Iterable[SourceIPClass]:
        """Return every class."""
        return (item.object for item in self._caches.classes.cache.items())

    def labels_of(self, namespace: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None when it does not exist."""
        found = self._caches.namespaces.get(namespace)
        return None if found is None else found["metadata"].get("labels") or {}

    def has_location(self, name: str) -> bool:
        """Return True if the Location exists."""
        return name in self.locations.cache

    def network(self, key: str) -> Network | None:
        """Return a Network by key."""
        return self.known_networks.get(key)

    def networks_of(self, namespace: str) -> Iterable[str]:
        """Return the keys of the Networks of a namespace."""
        return (item.key for item in self.known_networks.indexed(BY_NAMESPACE, namespace))

    def naming(self, claim: SourceIPClaim) -> Sequence[ExternalService]:
        """Return the ExternalServices that name a claim or an address that it holds, the oldest first."""
        return self._caches.users(claim)

    def load(self, but: str) -> Mapping[str, int]:
        """Return the number of addresses that each node carries, not counting `but`."""
        return self._caches.address_owners.load(but)
