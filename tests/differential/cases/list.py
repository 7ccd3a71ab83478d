"""GET of a collection."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, SERVICES, WORKLOADS, config_map, pod, role, service, workload
from tests.differential.steps import YAML, create, feature, get

_LABELS = {"case": "list"}

CASES = feature(
    "list",
    config_maps_in_the_order_of_their_names=(
        *(create(MAPS, config_map(name, {"k": name}, labels=_LABELS)) for name in ("c", "a", "b")),
        get(f"{MAPS}?labelSelector=case=list"),
    ),
    pods=(create(PODS, pod("a")), create(PODS, pod("b")), get(PODS)),
    services=(create(SERVICES, service()), get(SERVICES)),
    roles=(create(ROLES, role()), get(ROLES)),
    workloads=(create(WORKLOADS, workload()), get(WORKLOADS)),
    nothing=get(PODS),
    no_workloads=get(WORKLOADS),
    over_all_namespaces=(
        create(PODS, pod(labels={"of": "$ns"})),
        get("/api/v1/pods?labelSelector=of=$ns"),
    ),
    workloads_over_all_namespaces=(
        create(WORKLOADS, workload(labels={"of": "$ns"})),
        get("/apis/compute.datumapis.com/v1alpha/workloads?labelSelector=of=$ns"),
    ),
    in_a_namespace_that_is_not_there=get("/api/v1/namespaces/nowhere/pods"),
    as_yaml=(create(ROLES, role()), get(ROLES).accepting(YAML)),
    a_kind_that_is_not_there=get("/api/v1/namespaces/$ns/unicorns"),
    a_group_that_is_not_there=get("/apis/unicorns.example/v1/namespaces/$ns/unicorns"),
    a_version_that_is_not_there=get("/api/v2/namespaces/$ns/pods"),
)
