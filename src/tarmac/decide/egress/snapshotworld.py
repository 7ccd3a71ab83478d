"""The `EgressLookup` of egress over a snapshot, for explanations and plans.

Objects are decoded on access; nodes, owners and ExternalServices, which are read repeatedly, are cached.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Final

from tarmac.api.egress.externalservice import ExternalService
from tarmac.api.egress.forwarding import Forwarder, Gateway
from tarmac.api.egress.names import NAMESPACE, Address, forwarder_name
from tarmac.api.egress.sourceip import SourceIP, SourceIPClaim, SourceIPClass
from tarmac.api.networking.network import Network
from tarmac.api.partial import read_labels
from tarmac.api.schema import JsonObject
from tarmac.decide.egress.claims import names_claim
from tarmac.decide.egress.model import EgressModel
from tarmac.decide.egress.pool import SourceIPPool
from tarmac.decide.egress.reading import allowed_from, node_addresses, node_view, pod_view, service_view
from tarmac.decide.egress.status import owner_of
from tarmac.decide.egress.views import EgressPod, ServiceView, age
from tarmac.decide.pooled.nodeview import NodeView
from tarmac.decide.snapshot.egressobjects import (
    EXTERNAL_SERVICES,
    FORWARDERS,
    GATEWAYS,
    NAMESPACES,
    SERVICES,
    SLICES,
    SOURCE_IP_CLAIMS,
    SOURCE_IP_CLASSES,
    SOURCE_IPS,
)
from tarmac.decide.snapshot.snapshot import LOCATIONS, NETWORKS, NODES, PODS, Snapshot

_SERVICE: Final = "kubernetes.io/service-name"


class SnapshotWorld(EgressModel):
    """The cluster's objects at one moment."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._services: dict[str, list[ExternalService]] = {}  # by namespace

    def now(self) -> float:
        """Return the time of the snapshot."""
        return self._snapshot.now

    def service(self, key: str) -> ServiceView | None:
        """Return a Service and the endpoints in its slices."""
        found = SERVICES.get(self._snapshot, key)
        if found is None:
            return None
        namespace, _, name = key.partition("/")
        encoded = self._snapshot.list(SLICES.resource, namespace)
        mine = (raw for raw in encoded if read_labels(raw).get(_SERVICE) == name)
        return service_view(found, map(SLICES.decode, mine))

    def allowed_from(self, key: str) -> str | None:
        """Return the namespaces that a Service grants its use to, as annotated; None if it does not exist."""
        found = SERVICES.get(self._snapshot, key)
        return allowed_from(found) if found is not None else None

    def pod(self, key: str) -> EgressPod | None:
        """Return a pod that has not ended."""
        found = PODS.get(self._snapshot, key)
        return pod_view(found) if found is not None else None

    @cached_property
    def _nodes(self) -> dict[str, tuple[NodeView, JsonObject]]:
        return {each["metadata"]["name"]: (node_view(each), each) for each in NODES.all(self._snapshot)}

    @cached_property
    def _views(self) -> dict[str, NodeView]:
        return {name: view for name, (view, _) in self._nodes.items()}

    def nodes(self) -> Mapping[str, NodeView]:
        """Return every node by name."""
        return self._views

    @cached_property
    def addresses_of_nodes(self) -> set[Address]:
        """Every node's own addresses."""
        return {address for view, node in self._nodes.values() for address in node_addresses(node, view)}

    def is_of_a_node(self, address: Address) -> bool:
        """Return True if an address is a node's own."""
        return address in self.addresses_of_nodes

    def claim(self, key: str) -> SourceIPClaim | None:
        """Return a claim."""
        return SOURCE_IP_CLAIMS.get(self._snapshot, key)

    def source_ip(self, name: str) -> SourceIP | None:
        """Return a SourceIP by name."""
        return SOURCE_IPS.get(self._snapshot, name)

    def gateway(self, name: str) -> Gateway | None:
        """Return the Gateway of an address."""
        return GATEWAYS.get(self._snapshot, f"{NAMESPACE}/{name}")

    def forwarder(self, service: ExternalService, node: str) -> Forwarder | None:
        """Return the Forwarder of an ExternalService on a node."""
        own = service.metadata
        return FORWARDERS.get(self._snapshot, f"{NAMESPACE}/{forwarder_name(own.namespace, own.name, node)}")

    def address_class(self, name: str) -> SourceIPClass | None:
        """Return a SourceIPClass."""
        return SOURCE_IP_CLASSES.get(self._snapshot, name)

    def classes(self) -> Iterable[SourceIPClass]:
        """Return every SourceIPClass."""
        return SOURCE_IP_CLASSES.all(self._snapshot)

    def pool(self, offered: SourceIPClass) -> SourceIPPool:
        """Return the pool of a class."""
        name = offered.metadata.name
        mine = (each for each in SOURCE_IPS.all(self._snapshot) if each.spec.class_name == name)
        return SourceIPPool(offered, mine, self.addresses_of_nodes, self._uid_of)

    def _uid_of(self, namespace: str) -> str:
        found = NAMESPACES.get(self._snapshot, namespace)
        return "" if found is None else found["metadata"].get("uid", "")

    def labels_of(self, namespace: str) -> Mapping[str, str] | None:
        """Return the labels of a namespace; None if it does not exist."""
        found = NAMESPACES.get(self._snapshot, namespace)
        return None if found is None else found["metadata"].get("labels") or {}

    def has_location(self, name: str) -> bool:
        """Return True if a Location exists."""
        return self._snapshot.get(LOCATIONS.resource, name) is not None

    def network(self, key: str) -> Network | None:
        """Return a Network."""
        return NETWORKS.get(self._snapshot, key)

    def networks_of(self, namespace: str) -> Iterable[str]:
        """Return the keys of the Networks of a namespace."""
        return (f"{namespace}/{each.metadata.name}" for each in NETWORKS.all(self._snapshot, namespace))

    def naming(self, claim: SourceIPClaim) -> Sequence[ExternalService]:
        """Return the ExternalServices that name a claim, or an address that it holds; oldest first."""
        namespace = claim.metadata.namespace
        if namespace not in self._services:
            self._services[namespace] = sorted(EXTERNAL_SERVICES.all(self._snapshot, namespace), key=age)
        return [each for each in self._services[namespace] if names_claim(each, claim)]

    @cached_property
    def _owners(self) -> dict[str, str]:
        found = {each.metadata.name: owner_of(each) for each in GATEWAYS.all(self._snapshot)}
        return {name: owner.name for name, owner in found.items() if owner is not None}

    def load(self, but: str) -> Mapping[str, int]:
        """Count the addresses that each node carries, except one."""
        return Counter(node for name, node in self._owners.items() if name != but)
