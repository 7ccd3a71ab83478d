"""Caches, indexes and clients shared by the loops of public addresses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarmac.api.compute.names import LABEL_WORKLOAD_UID
from tarmac.api.compute.workload import Workload
from tarmac.api.egress.names import Address
from tarmac.api.ingress.addresspool import AddressPool
from tarmac.api.ingress.publicaddress import PublicAddress
from tarmac.api.networking.names import DEFAULT_NETWORK
from tarmac.api.schema import JsonObject
from tarmac.api.shared import IPFamily
from tarmac.client.cache import Item, by_label
from tarmac.client.overlaycache import ReadYourWritesCache
from tarmac.client.targets.typed import (
    ADDRESS_POOLS,
    BGP_PEERS,
    NETWORKS,
    PUBLIC_ADDRESSES,
    SOURCE_IP_CLASSES,
    WORKLOADS,
)
from tarmac.client.targets.untyped import ENDPOINT_SLICES, NAMESPACES, NODES, PODS, SERVICES
from tarmac.controllers.context import ControllerContext
from tarmac.controllers.endpointslices import BY_SERVICE, service_of
from tarmac.controllers.nodeviews import NodeViews
from tarmac.decide.ingress.addressclaims import IngressClaim, holder_key, service_claim, workload_claim
from tarmac.decide.ingress.binding import holders
from tarmac.decide.pooled.permissions import allows_namespace

BY_POOL, BY_HOLDER, BY_WORKLOAD = "pool", "holder", "workload"
MANAGER = "tarmac-ingress"


class IngressCaches:
    """Shared caches and clients. `claims` are the Services and Workloads that want addresses, by key."""

    def __init__(self, context: ControllerContext) -> None:
        informers, client = context.informers, context.client
        self.clock, self.recorder, self.runner = client.clock, context.recorder, client.runner
        self.pools = informers.informer(ADDRESS_POOLS)
        self.peers = informers.informer(BGP_PEERS)
        self.classes = informers.informer(SOURCE_IP_CLASSES)
        self.known_addresses = informers.informer(PUBLIC_ADDRESSES)
        self.known_addresses.add_index(BY_POOL, lambda item: (item.object.spec.pool_name,))
        self.known_addresses.add_index(BY_HOLDER, lambda item: {each.uid for each in holders(item.object)} - {""})
        self.services = informers.informer(SERVICES)
        self.workloads = informers.informer(WORKLOADS)
        self.networks = informers.informer(NETWORKS)
        self.namespaces = informers.informer(NAMESPACES)
        self.pods = informers.informer(PODS)
        self.pods.add_index(BY_WORKLOAD, by_label(LABEL_WORKLOAD_UID))
        self.slices = informers.informer(ENDPOINT_SLICES)
        self.slices.add_index(BY_SERVICE, service_of)
        self.slices.add_index(BY_WORKLOAD, by_label(LABEL_WORKLOAD_UID))
        self.nodes = informers.informer(NODES)
        self.node_views = NodeViews()
        self.nodes.on_change(self.node_views.changed)
        self.claims: dict[str, IngressClaim] = {}
        self.claim_listeners: list[Callable[[str], None]] = []  # called with the key of a changed claim
        self.services.on_change(self._service_changed)
        self.workloads.on_change(self._workload_changed)
        self.networks.on_change(self._network_changed)
        self.addresses = ReadYourWritesCache(self.known_addresses)
        self.pool_resource = client.resource(ADDRESS_POOLS)
        self.peer_resource = client.resource(BGP_PEERS)
        self.address_resource = client.resource(PUBLIC_ADDRESSES)
        self.service_resource = client.resource(SERVICES)
        self.workload_resource = client.resource(WORKLOADS)
        self.namespace_resource = client.resource(NAMESPACES)
        self.slice_resource = client.resource(ENDPOINT_SLICES)

    def uid_of(self, namespace: str) -> str:
        """Return the uid of a namespace; empty if it does not exist."""
        found = self.namespaces.get(namespace)
        return "" if found is None else found["metadata"]["uid"]

    def allowed(self, pool: AddressPool, namespace: str) -> bool:
        """Return True if a namespace exists and may use a pool."""
        found = self.namespaces.get(namespace)
        labels = None if found is None else found["metadata"].get("labels") or {}
        return labels is not None and allows_namespace(pool.spec.allowed_namespaces, namespace, labels)

    def held_by(self, uid: str) -> list[PublicAddress]:
        """Return the addresses whose holders include this uid, sorted by name."""
        found = self.addresses.indexed(BY_HOLDER, uid)
        mine = {each.metadata.name: each for each in found if any(holder.uid == uid for holder in holders(each))}
        return [mine[name] for name in sorted(mine)]

    def interfaces(self) -> set[Address]:
        """Return the addresses of all nodes, which are never handed out."""
        return self.node_views.addresses

    def families_of(self, workload: Workload) -> list[IPFamily]:
        """Return the families of the Network of a Workload's first interface."""
        interfaces = workload.spec.template.spec.network_interfaces
        name = interfaces[0].network.name if interfaces else DEFAULT_NETWORK
        network = self.networks.get(f"{workload.metadata.namespace}/{name}")
        return list(network.spec.ip_families) if network is not None else ["IPv4"]

    def _service_changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        item = new or old
        assert item is not None, "a change has a state before or after it"
        key = holder_key("Service", item.metadata.namespace, item.metadata.name)
        self._put(key, service_claim(new.object) if new is not None else None)

    def _workload_changed(self, old: Item[Workload] | None, new: Item[Workload] | None) -> None:
        item = new or old
        assert item is not None, "a change has a state before or after it"
        key = holder_key("Workload", item.metadata.namespace, item.metadata.name)
        self._put(key, workload_claim(new.object, self.families_of(new.object)) if new is not None else None)

    def _network_changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        """Compute the claims of the namespace's Workloads again: their families are those of the Network."""
        item = new or old
        assert item is not None, "a change has a state before or after it"
        before = old.object.spec.ip_families if old is not None else None
        if new is not None and new.object.spec.ip_families == before:
            return
        prefix = holder_key("Workload", item.metadata.namespace, "")
        for key in [key for key in self.claims if key.startswith(prefix)]:
            workload = self.workloads.get(key.partition("/")[2])
            if workload is not None:
                self._put(key, workload_claim(workload, self.families_of(workload)))

    def _put(self, key: str, claim: IngressClaim | None) -> None:
        if self.claims.get(key) == claim:
            return
        if claim is None:
            self.claims.pop(key, None)
        else:
            self.claims[key] = claim
        for listener in self.claim_listeners:
            listener(key)
