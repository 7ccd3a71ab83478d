"""Responses as rows and columns."""

from __future__ import annotations

from tests.differential.samples import SAMPLES
from tests.differential.shared import (
    CORE,
    EVENTS,
    MAPS,
    PODS,
    ROLES,
    SECRETS,
    SERVICES,
    TABLE,
    WORKLOADS,
    config_map,
    pod,
    role,
    service,
    workload,
)
from tests.differential.steps import YAML, Json, create, delete, feature, get, put

_KUBECTL = f"{TABLE},{TABLE.replace('v1;g', 'v1beta1;g')},application/json"


def _headers(body: Json) -> Json:
    return [[column["name"], column["type"], column["priority"]] for column in body["columnDefinitions"]]


CASES = feature(
    "Table",
    of_pods=(create(PODS, pod()), create(PODS, pod("b", {"nodeName": "n1"})), get(PODS).accepting(TABLE)),
    of_services=(create(SERVICES, service()), get(SERVICES).accepting(TABLE)),
    of_config_maps=(
        create(MAPS, config_map(data={"k": "v"}, labels={"x": "y"})),
        get(f"{MAPS}?labelSelector=x=y").accepting(TABLE),
    ),
    of_roles=(create(ROLES, role()), get(ROLES).accepting(TABLE)),
    of_secrets=(
        create(SECRETS, {"metadata": {"name": "a", "labels": {"x": "y"}}, "data": {"k": "dg=="}}),
        get(f"{SECRETS}?labelSelector=x=y").accepting(TABLE),
    ),
    of_workloads=(create(WORKLOADS, workload()), get(WORKLOADS).accepting(TABLE)),
    of_one_pod=(create(PODS, pod()), get(f"{PODS}/a").accepting(TABLE)),
    of_one_workload=(create(WORKLOADS, workload()), get(f"{WORKLOADS}/a").accepting(TABLE)),
    of_nothing=get(PODS).accepting(TABLE),
    as_kubectl_asks=(create(ROLES, role()), get(ROLES).accepting(_KUBECTL)),
    with_whole_objects=(create(ROLES, role()), get(f"{ROLES}?includeObject=Object").accepting(TABLE)),
    without_objects=(create(ROLES, role()), get(f"{ROLES}?includeObject=None").accepting(TABLE)),
    with_an_inclusion_nobody_knows=(create(ROLES, role()), get(f"{ROLES}?includeObject=Some").accepting(TABLE)),
    of_a_version_nobody_knows=get(ROLES).accepting(TABLE.replace("v=v1", "v=v7")),
    of_a_created_object=create(ROLES, role()).accepting(TABLE),
    of_an_updated_object=(create(ROLES, role()), put(f"{ROLES}/a", role(rules=[])).accepting(TABLE)),
    of_a_deletion=(create(MAPS, config_map()), delete(f"{MAPS}/a").accepting(TABLE)),
    of_what_is_not_there=get(f"{PODS}/nothing").accepting(TABLE),
    in_yaml=(create(ROLES, role()), get(ROLES).accepting(TABLE.replace("application/json", YAML))),
    of_deprecated_endpoints=(
        create(f"{CORE}/endpoints", {"metadata": {"name": "a"}}),
        get(f"{CORE}/endpoints").accepting(TABLE),
    ),
    headers_of_nodes=get("/api/v1/nodes").accepting(TABLE).viewing(_headers),
    headers_of_namespaces=get("/api/v1/namespaces").accepting(TABLE).viewing(_headers),
    headers_of_events=get(EVENTS).accepting(TABLE).viewing(_headers),
    headers_of_claims=get("/api/v1/persistentvolumeclaims").accepting(TABLE).viewing(_headers),
    **{
        f"of_a_{kind}": (create(path, body), get(f"{path}?labelSelector=case=$ns").accepting(TABLE))
        for kind, (path, body) in SAMPLES.items()
    },
)
