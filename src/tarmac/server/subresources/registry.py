"""Table of all subresources and their routes; any other subresource is the object's status in plain storage."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from tarmac.api.compute.names import GROUP as COMPUTE
from tarmac.api.egress.names import GROUP as SUBMARINER
from tarmac.api.networking.names import GROUP as NETWORKING
from tarmac.server.routes import ANY_SCALE, Answering, Route, Routes
from tarmac.server.storage.resourcestorage import ResourceStorage
from tarmac.server.subresources.binding import binding_route, bindings_route
from tarmac.server.subresources.egressconnections import external_connections_route
from tarmac.server.subresources.eviction import eviction_route
from tarmac.server.subresources.ledger import ledger_route
from tarmac.server.subresources.machinesubresources import PARAMETERS, machine_route
from tarmac.server.subresources.nodestreams import (
    NodeForwarder,
    log_route,
    node_proxy_route,
    pod_proxy_route,
    service_proxy_route,
    stream_route,
)
from tarmac.server.subresources.offloading import MAX_THREADS
from tarmac.server.subresources.partialupdates import (
    approval_route,
    ephemeral_containers_route,
    finalize_route,
    resize_route,
)
from tarmac.server.subresources.plan import external_plan_route, ingress_plan_route, plan_route
from tarmac.server.subresources.reaching import Refuses
from tarmac.server.subresources.readyhistory import ready_history_route
from tarmac.server.subresources.reviews import REVIEWS, ReviewEndpoint, TokenEndpoint, review_route, token_route
from tarmac.server.subresources.scale import scale_route
from tarmac.server.subresources.usagemetrics import PastUsage, UsageSource, usage_route
from tarmac.server.subresources.userqueue import UserQueue
from tarmac.server.subresources.why import why_route

Key = tuple[str, str, str]

POD_CONTROLLERS = (
    ("apps", "daemonsets"),
    ("apps", "deployments"),
    ("apps", "replicasets"),
    ("apps", "statefulsets"),
    ("batch", "cronjobs"),
    ("batch", "jobs"),
    ("", "replicationcontrollers"),
)
WAY_IN = (("", "services"), (NETWORKING, "addresspools"), (NETWORKING, "bgppeers"), (NETWORKING, "publicaddresses"))
EXPLAINED = (
    ("", "nodes"),
    ("", "pods"),
    ("", "services"),
    (COMPUTE, "workloads"),
    (COMPUTE, "workloaddeployments"),
    (COMPUTE, "instances"),
    (SUBMARINER, "externalservices"),
    (SUBMARINER, "sourceipclaims"),
    (SUBMARINER, "sourceipclasses"),
    (SUBMARINER, "sourceips"),
    (NETWORKING, "addresspools"),
    (NETWORKING, "bgppeers"),
    (NETWORKING, "publicaddresses"),
    *POD_CONTROLLERS,
)
_MAX_PLANS: Final = 8  # of a user that wait: each takes seconds
_MAX_EXPLANATIONS: Final = 64


def special_routes(
    connections: NodeForwarder,
    usage: UsageSource,
    past_usage: PastUsage,
    reviews: ReviewEndpoint,
    issuer: TokenEndpoint,
    refuses: Refuses,
) -> Mapping[Key, Answering]:
    """Return the routes by (group, plural, subresource)."""
    plans = UserQueue("plans", MAX_THREADS, _MAX_PLANS)
    explanations = UserQueue("explanations", MAX_THREADS, _MAX_EXPLANATIONS)

    def measured(_: Routes, storage: ResourceStorage) -> Route:
        return usage_route(storage, usage, past_usage)

    routes: dict[Key, Answering] = {
        ANY_SCALE: lambda _, storage: scale_route(storage),
        ("", "pods", "binding"): lambda _, storage: binding_route(storage),
        ("", "bindings", ""): lambda routes, _: bindings_route(routes.sibling("", "v1", "pods")),
        ("", "pods", "eviction"): _eviction,
        ("", "pods", "ephemeralcontainers"): lambda _, storage: ephemeral_containers_route(storage),
        ("", "pods", "resize"): lambda _, storage: resize_route(storage),
        ("", "namespaces", "finalize"): lambda _, storage: finalize_route(storage),
        ("certificates.k8s.io", "certificatesigningrequests", "approval"): lambda _, storage: approval_route(storage),
        ("metrics.k8s.io", "nodes", ""): measured,
        ("metrics.k8s.io", "pods", ""): measured,
    }
    routes[COMPUTE, "workloads", "history"] = lambda _, storage: ready_history_route(storage, past_usage)
    routes[COMPUTE, "workloads", "plan"] = lambda _, storage: plan_route(storage, plans)
    for plural in ("externalservices", "sourceipclaims"):
        routes[SUBMARINER, plural, "plan"] = lambda _, storage: external_plan_route(storage, plans)
    for group, plural in WAY_IN:
        routes[group, plural, "plan"] = lambda _, storage: ingress_plan_route(storage, plans)
    for group, plural in EXPLAINED:
        routes[group, plural, "why"] = lambda _, storage: why_route(storage, refuses, explanations)
    for group, plural in REVIEWS:
        routes[group, plural, ""] = lambda _, storage: review_route(storage, reviews)
    routes["", "serviceaccounts", "token"] = lambda _, storage: token_route(storage, issuer)
    routes["", "nodes", "ledger"] = lambda _, storage: ledger_route(storage, usage, explanations)
    routes |= _to_nodes(connections)
    return routes


def _to_nodes(connections: NodeForwarder) -> dict[Key, Answering]:
    def stream(kind: str) -> Answering:
        return lambda _, storage: stream_route(storage, connections, kind)

    def into_machine(place: str) -> Answering:
        return lambda _, storage: machine_route(storage, connections, place)

    return {
        **{(COMPUTE, "instances", place): into_machine(place) for place in PARAMETERS},
        ("", "pods", "log"): lambda _, storage: log_route(storage, connections),
        **{("", "pods", kind): stream(kind) for kind in ("exec", "attach", "portforward")},
        ("", "pods", "proxy"): lambda _, storage: pod_proxy_route(storage, connections),
        ("", "nodes", "proxy"): lambda _, storage: node_proxy_route(storage, connections),
        (SUBMARINER, "externalservices", "connections"): lambda _, storage: external_connections_route(
            storage, connections
        ),
        ("", "services", "proxy"): lambda routes, storage: service_proxy_route(routes, storage, connections),
    }


def _eviction(routes: Routes, storage: ResourceStorage) -> Route:
    return eviction_route(storage, routes.sibling("policy", "v1", "poddisruptionbudgets"))
