"""Writes with dryRun, which are validated and not stored."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, SERVICES, WORKLOADS, config_map, pod, service, workload
from tests.differential.steps import MERGE_PATCH, apply, create, delete, feature, get, patch, put

CASES = feature(
    "dryRun",
    create=(create(f"{MAPS}?dryRun=All", config_map(data={"k": "v"})), get(f"{MAPS}/a")),
    create_a_pod=(create(f"{PODS}?dryRun=All", pod()), get(f"{PODS}/a")),
    create_a_workload=(create(f"{WORKLOADS}?dryRun=All", workload()), get(f"{WORKLOADS}/a")),
    update=(
        create(MAPS, config_map(data={"k": "v"})),
        put(f"{MAPS}/a?dryRun=All", config_map(data={"k": "w"})),
        get(f"{MAPS}/a"),
    ),
    patch=(
        create(SERVICES, service()),
        patch(MERGE_PATCH, f"{SERVICES}/a?dryRun=All", {"spec": {"sessionAffinity": "ClientIP"}}),
        get(f"{SERVICES}/a"),
    ),
    apply=(apply(f"{MAPS}/a?dryRun=All", config_map()), get(f"{MAPS}/a")),
    delete=(create(MAPS, config_map()), delete(f"{MAPS}/a?dryRun=All"), get(f"{MAPS}/a")),
    delete_a_pod=(create(PODS, pod()), delete(f"{PODS}/a?dryRun=All"), get(f"{PODS}/a")),
    a_refusal_is_the_same=create(f"{MAPS}?dryRun=All", config_map("Bad_Name")),
    a_name_that_exists=(create(MAPS, config_map()), create(f"{MAPS}?dryRun=All", config_map())),
    a_value_nobody_knows=create(f"{MAPS}?dryRun=Some", config_map()),
    a_value_nobody_knows_in_the_body=(create(MAPS, config_map()), delete(f"{MAPS}/a", {"dryRun": ["Some"]})),
)
