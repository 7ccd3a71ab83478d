"""Discovery of the served resources, in both forms."""

from __future__ import annotations

from tests.differential.steps import feature, get
from tests.differential.views import discovered, groups, keys, resources

_AGGREGATED = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_COMPUTE = "compute.datumapis.com"
_NETWORKING = [  # all but podendpoints, which no definition can stand for
    f"{plural}{subresource}"
    for plural in (
        "locations",
        "networkbindings",
        "networkcontexts",
        "networkpolicies",
        "networks",
        "subnetclaims",
        "subnets",
    )
    for subresource in ("", "/status")
]
_RBAC = "rbac.authorization.k8s.io"

CASES = feature(
    "discovery",
    versions=get("/api").viewing(keys()),
    group_list=get("/apis").viewing(groups(_RBAC, "policy", "coordination.k8s.io", "storage.k8s.io", _COMPUTE)),
    one_group=get(f"/apis/{_RBAC}"),
    our_group=get(f"/apis/{_COMPUTE}"),
    core_resources=get("/api/v1").viewing(
        resources(
            "configmaps",
            "events",
            "limitranges",
            "namespaces",
            "namespaces/finalize",
            "namespaces/status",
            "nodes",
            "nodes/status",
            "persistentvolumeclaims",
            "persistentvolumes",
            "pods",
            "pods/binding",
            "pods/eviction",
            "pods/status",
            "pods/ephemeralcontainers",
            "pods/log",
            "pods/exec",
            "pods/resize",
            "secrets",
            "serviceaccounts",
            "serviceaccounts/token",
            "services",
            "services/status",
            "bindings",
            "endpoints",
        )
    ),
    rbac_resources=get(f"/apis/{_RBAC}/v1"),
    policy_resources=get("/apis/policy/v1"),
    lease_resources=get("/apis/coordination.k8s.io/v1"),
    our_resources=get(f"/apis/{_COMPUTE}/v1alpha").viewing(resources()),
    our_network_resources=get("/apis/networking.datumapis.com/v1alpha").viewing(resources(*_NETWORKING)),
    aggregated_core=get("/api")
    .accepting(_AGGREGATED)
    .viewing(discovered("", "pods", "configmaps", "services", "namespaces", "serviceaccounts")),
    aggregated_roles=get("/apis").accepting(_AGGREGATED).viewing(discovered(_RBAC, "roles", "clusterroles")),
    aggregated_workloads=get("/apis")
    .accepting(_AGGREGATED)
    .viewing(discovered(_COMPUTE, "workloads", "workloaddeployments")),
    aggregated_or_else=get("/apis").accepting(f"{_AGGREGATED},application/json").viewing(discovered(_RBAC, "roles")),
    a_group_nobody_serves=get("/apis/unicorns.example"),
    a_version_nobody_serves=get(f"/apis/{_RBAC}/v7"),
    a_core_version_nobody_serves=get("/api/v7"),
)
