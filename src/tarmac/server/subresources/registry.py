"""Table of all subresources and their routes; any other subresource is the object's status in plain storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tarmac.api.compute.names import GROUP as COMPUTE
from tarmac.api.egress.names import GROUP as SUBMARINER
from tarmac.server.routes import ANY_SCALE, Answering, Route, Routes
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.subresources.binding import binding_route, bindings_route
from tarmac.server.subresources.connections import (
    NodeConnections,
    log_route,
    node_proxy_route,
    pod_proxy_route,
    service_proxy_route,
    stream_route,
)
from tarmac.server.subresources.egressconnections import external_connections_route
from tarmac.server.subresources.egressplan import external_plan_route
from tarmac.server.subresources.eviction import eviction_route
from tarmac.server.subresources.ledger import ledger_route
from tarmac.server.subresources.machines import PARAMETERS, machine_route
from tarmac.server.subresources.metrics import UsageSource, usage_route
from tarmac.server.subresources.offloading import THREADS
from tarmac.server.subresources.partialupdates import (
    approval_route,
    ephemeral_containers_route,
    finalize_route,
    resize_route,
)
from tarmac.server.subresources.plan import plan_route
from tarmac.server.subresources.reaching import Refuses
from tarmac.server.subresources.reviews import REVIEWS, Reviews, TokenIssuer, review_route, token_route
from tarmac.server.subresources.scale import scale_route
from tarmac.server.subresources.userqueue import UserQueue
from tarmac.server.subresources.why import why_route

Key = tuple[str, str, str]

EXPLAINED = (
    ("", "nodes"),
    ("", "pods"),
    (COMPUTE, "workloads"),
    (COMPUTE, "workloaddeployments"),
    (COMPUTE, "instances"),
    (SUBMARINER, "externalservices"),
    (SUBMARINER, "sourceipclaims"),
    (SUBMARINER, "sourceipclasses"),
    (SUBMARINER, "sourceips"),
)
_MAX_PLANS: Final = 8  # of a user that wait: each takes seconds
_MAX_EXPLANATIONS: Final = 64


def special_routes(
    connections: NodeConnections, usage: UsageSource, reviews: Reviews, issuer: TokenIssuer, refuses: Refuses
) -> Mapping[Key, Answering]:
    """Return the routes by (group, plural, subresource)."""
    plans = UserQueue("plans", THREADS, _MAX_PLANS)
    explanations = UserQueue("explanations", THREADS, _MAX_EXPLANATIONS)

    def measured(_: Routes, served: ResourceStorage) -> Route:
        return usage_route(served, usage)

    routes: dict[Key, Answering] = {
        ANY_SCALE: lambda _, served: scale_route(served),
        ("", "pods", "binding"): lambda _, served: binding_route(served),
        ("", "bindings", ""): lambda routes, _: bindings_route(routes.sibling("", "v1", "pods")),
        ("", "pods", "eviction"): _eviction,
        ("", "pods", "ephemeralcontainers"): lambda _, served: ephemeral_containers_route(served),
        ("", "pods", "resize"): lambda _, served: resize_route(served),
        ("", "namespaces", "finalize"): lambda _, served: finalize_route(served),
        ("certificates.k8s.io", "certificatesigningrequests", "approval"): lambda _, served: approval_route(served),
        ("metrics.k8s.io", "nodes", ""): measured,
        ("metrics.k8s.io", "pods", ""): measured,
    }
    routes[COMPUTE, "workloads", "plan"] = lambda _, served: plan_route(served, plans)
    for plural in ("externalservices", "sourceipclaims"):
        routes[SUBMARINER, plural, "plan"] = lambda _, served: external_plan_route(served, plans)
    for group, plural in EXPLAINED:
        routes[group, plural, "why"] = lambda _, served: why_route(served, refuses, explanations)
    for group, plural in REVIEWS:
        routes[group, plural, ""] = lambda _, served: review_route(served, reviews)
    routes["", "serviceaccounts", "token"] = lambda _, served: token_route(served, issuer)
    routes["", "nodes", "ledger"] = lambda _, served: ledger_route(served, usage, explanations)
    routes |= _to_nodes(connections)
    return routes


def _to_nodes(connections: NodeConnections) -> dict[Key, Answering]:
    def stream(kind: str) -> Answering:
        return lambda _, served: stream_route(served, connections, kind)

    def into_machine(place: str) -> Answering:
        return lambda _, served: machine_route(served, connections, place)

    return {
        **{(COMPUTE, "instances", place): into_machine(place) for place in PARAMETERS},
        ("", "pods", "log"): lambda _, served: log_route(served, connections),
        **{("", "pods", kind): stream(kind) for kind in ("exec", "attach", "portforward")},
        ("", "pods", "proxy"): lambda _, served: pod_proxy_route(served, connections),
        ("", "nodes", "proxy"): lambda _, served: node_proxy_route(served, connections),
        (SUBMARINER, "externalservices", "connections"): lambda _, served: external_connections_route(
            served, connections
        ),
        ("", "services", "proxy"): lambda routes, served: service_proxy_route(routes, served, connections),
    }


def _eviction(routes: Routes, served: ResourceStorage) -> Route:
    return eviction_route(served, routes.sibling("policy", "v1", "poddisruptionbudgets"))
