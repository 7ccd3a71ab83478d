"""Assembles the server from its parts.

Components with a clock, a disk or a secret are passed in; defaults for the rest are chosen here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from tarmac.api.catalog import Catalog
from tarmac.api.openapi import OpenAPI
from tarmac.api.restored import NODES_PATH, RESTORED_PATH
from tarmac.base.clock import Clock
from tarmac.base.metrics import Family
from tarmac.base.randomness import Randomness
from tarmac.server.admission.chain import AdmissionChain
from tarmac.server.app import ApiServer, RequestGates
from tarmac.server.endpoints.discovery import DiscoveryEndpoint
from tarmac.server.endpoints.documents import Documents, Endpoint
from tarmac.server.endpoints.health import Check, HealthEndpoint
from tarmac.server.endpoints.openapi import OpenApiEndpoint
from tarmac.server.metrics import Metrics
from tarmac.server.nodes.restoredendpoints import RestoredPods
from tarmac.server.reader import Reader
from tarmac.server.routes import Answering, Routes
from tarmac.server.storage.eventttl import EventExpiry
from tarmac.server.storage.listcache import ListCache
from tarmac.server.storage.resourcestorage import StorageServices
from tarmac.server.storage.watchgroups import Hub
from tarmac.server.subresources.nodestreams import NodeForwarder, NoNodes
from tarmac.server.subresources.registry import special_routes
from tarmac.server.subresources.reviews import ReviewEndpoint, TokenEndpoint
from tarmac.server.subresources.usagemetrics import NoPastUsage, NoUsage, PastUsage, UsageSource
from tarmac.store.interface import Store


@dataclass(frozen=True, slots=True)
class ServerParts:
    """The components of a server."""

    store: Store
    catalog: Catalog
    gates: RequestGates
    admission: AdmissionChain
    clock: Clock
    randomness: Randomness
    metrics: Metrics = field(default_factory=Metrics)
    connections: NodeForwarder = field(default_factory=NoNodes)
    usage: UsageSource = field(default_factory=NoUsage)
    past_usage: PastUsage = field(default_factory=NoPastUsage)
    reviews: ReviewEndpoint = field(kw_only=True)
    issuer: TokenEndpoint = field(kw_only=True)
    # further documents by path: the issuer's keys
    documents: Mapping[str, Endpoint] = field(default_factory=dict[str, Endpoint])
    live: Mapping[str, Check] = field(default_factory=dict[str, Check])
    ready: Mapping[str, Check] = field(default_factory=dict[str, Check])
    ready_elsewhere: Mapping[str, Check] = field(default_factory=dict[str, Check])  # of this server's other processes


def assemble(parts: ServerParts) -> ApiServer:
    """Return a server, not yet started."""
    store, clock = parts.store, parts.clock
    services = StorageServices(store, Reader(store), parts.catalog, parts.admission, clock, parts.randomness)
    hub = Hub(store, clock)
    parts.metrics.register(lambda: _gauges(store, hub))
    routes = Routes(services, hub, ListCache(clock), _special(parts))
    live, ready = parts.live, {**parts.live, **parts.ready}
    health = [
        HealthEndpoint("livez", live),
        HealthEndpoint("readyz", ready, parts.ready_elsewhere),
        HealthEndpoint("healthz", live),
    ]
    catalog = parts.catalog
    discovery, openapi = DiscoveryEndpoint(catalog), OpenApiEndpoint(OpenAPI(catalog))
    restored = RestoredPods(services.reader, catalog, parts.admission, clock)
    own = {NODES_PATH: restored.beside(parts.documents.get(NODES_PATH)), RESTORED_PATH: restored.people}
    documents = Documents(catalog, discovery, openapi, health, parts.metrics, {**parts.documents, **own})
    return ApiServer(
        routes, documents, hub, EventExpiry(store, clock), parts.gates, parts.metrics, clock, store.settled
    )


def _special(parts: ServerParts) -> Mapping[tuple[str, str, str], Answering]:
    refuses = parts.gates.authorizer.refuses
    return special_routes(parts.connections, parts.usage, parts.past_usage, parts.reviews, parts.issuer, refuses)


def _gauges(store: Store, hub: Hub) -> Iterator[Family]:
    """Return the metrics computed at scrape time: objects by resource, watchers, events sent to them."""
    name = "apiserver_storage_objects"
    counts = [(name, [("resource", _shown(bucket))], store.count(bucket)) for bucket in store.buckets()]
    yield name, "gauge", "Objects in the store.", counts
    name = "apiserver_registered_watchers"
    yield name, "gauge", "Watches being served.", [(name, (), hub.count)]
    name = "apiserver_watch_events_total"
    sent = [(name, [("resource", _shown(bucket))], count) for bucket, count in hub.sent.items()]
    yield name, "counter", "Events sent to watchers.", sent
    name = "apiserver_storage_revision"
    yield name, "gauge", "The newest visible revision.", [(name, (), store.revision)]


def _shown(bucket: str) -> str:
    """Return `leases.coordination.k8s.io` for `coordination.k8s.io/leases`."""
    group, _, plural = bucket.partition("/")
    return plural if group == "core" else f"{plural}.{group}"
