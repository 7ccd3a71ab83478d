"""Responses reduced to metadata."""

from __future__ import annotations

from tests.differential.shared import (
    MAPS,
    PARTIAL,
    PARTIAL_LIST,
    PODS,
    ROLES,
    SERVICES,
    WORKLOADS,
    config_map,
    pod,
    role,
    service,
    workload,
)
from tests.differential.steps import MERGE_PATCH, create, delete, feature, get, patch, watch

CASES = feature(
    "PartialObjectMetadata",
    of_a_config_map=(create(MAPS, config_map(data={"k": "v"}, labels={"x": "y"})), get(f"{MAPS}/a").accepting(PARTIAL)),
    of_a_pod=(create(PODS, pod()), get(f"{PODS}/a").accepting(PARTIAL)),
    of_a_workload=(create(WORKLOADS, workload()), get(f"{WORKLOADS}/a").accepting(PARTIAL)),
    of_a_list=(create(ROLES, role()), create(ROLES, role("b")), get(ROLES).accepting(PARTIAL_LIST)),
    of_a_list_of_workloads=(create(WORKLOADS, workload()), get(WORKLOADS).accepting(PARTIAL_LIST)),
    of_an_empty_list=get(PODS).accepting(PARTIAL_LIST),
    of_a_watch=(create(SERVICES, service()), get(SERVICES), watch(SERVICES, events=1).accepting(PARTIAL)),
    of_a_patch=(
        create(MAPS, config_map()),
        patch(MERGE_PATCH, f"{MAPS}/a", {"metadata": {"labels": {"x": "y"}}}).accepting(PARTIAL),
    ),
    of_a_created_object=create(MAPS, config_map()).accepting(PARTIAL),
    of_a_deletion=(create(PODS, pod()), delete(f"{PODS}/a").accepting(PARTIAL)),
    of_what_is_not_there=get(f"{MAPS}/nothing").accepting(PARTIAL),
    a_list_asked_for_as_one=get(ROLES).accepting(PARTIAL),
    one_asked_for_as_a_list=(create(ROLES, role()), get(f"{ROLES}/a").accepting(PARTIAL_LIST)),
    of_a_kind_nobody_knows=get(ROLES).accepting(PARTIAL.replace("PartialObjectMetadata", "Mystery")),
    with_a_way_out=get(ROLES).accepting(f"{PARTIAL_LIST},application/json"),
)
