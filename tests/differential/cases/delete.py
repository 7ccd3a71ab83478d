"""DELETE of one object."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, SERVICES, WORKLOADS, config_map, pod, role, service, workload
from tests.differential.steps import YAML, create, delete, feature, get, put

_ON_NODE = pod(spec={"nodeName": "n1"})

CASES = feature(
    "delete",
    a_config_map=(create(MAPS, config_map()), delete(f"{MAPS}/a"), get(f"{MAPS}/a")),
    a_role=(create(ROLES, role()), delete(f"{ROLES}/a"), get(f"{ROLES}/a")),
    a_service=(create(SERVICES, service()), delete(f"{SERVICES}/a"), get(f"{SERVICES}/a")),
    a_workload=(create(WORKLOADS, workload()), delete(f"{WORKLOADS}/a"), get(f"{WORKLOADS}/a")),
    a_pod_that_no_node_runs=(create(PODS, pod()), delete(f"{PODS}/a"), get(f"{PODS}/a")),
    a_pod_on_a_node_takes_its_grace_period=(
        create(PODS, _ON_NODE),
        delete(f"{PODS}/a?gracePeriodSeconds=7"),
        get(f"{PODS}/a"),
        delete(f"{PODS}/a"),
        delete(f"{PODS}/a?gracePeriodSeconds=0"),
        get(f"{PODS}/a"),
    ),
    a_grace_period_in_the_body=(
        create(PODS, _ON_NODE),
        delete(f"{PODS}/a", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 3}),
        delete(f"{PODS}/a", {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}),
    ),
    nothing=delete(f"{MAPS}/a"),
    a_workload_that_is_not_there=delete(f"{WORKLOADS}/a"),
    with_the_right_uid=(
        create(MAPS, config_map()).keep(uid="metadata.uid"),
        delete(f"{MAPS}/a", {"preconditions": {"uid": "$uid"}}),
    ),
    with_another_uid=(
        create(MAPS, config_map()),
        delete(f"{MAPS}/a", {"preconditions": {"uid": "7b1e0f1c-0000-0000-0000-000000000000"}}),
    ),
    with_an_old_version=(
        create(MAPS, config_map(data={"k": "v"})).keep(rv="metadata.resourceVersion"),
        put(f"{MAPS}/a", config_map(data={"k": "w"})),
        delete(f"{MAPS}/a", {"preconditions": {"resourceVersion": "$rv"}}),
    ),
    with_options_as_yaml=(
        create(MAPS, config_map()),
        delete(f"{MAPS}/a", b"kind: DeleteOptions\napiVersion: v1\ndryRun: [All]\n").sending(YAML),
        get(f"{MAPS}/a"),
    ),
    with_a_negative_grace_period=(create(PODS, pod()), delete(f"{PODS}/a?gracePeriodSeconds=-1")),
    with_a_grace_period_that_is_no_number=(create(PODS, pod()), delete(f"{PODS}/a?gracePeriodSeconds=soon")),
    with_a_body_of_another_kind=(create(MAPS, config_map()), delete(f"{MAPS}/a", config_map())),
)
