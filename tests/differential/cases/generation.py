"""metadata.generation counts the versions of the spec."""

from __future__ import annotations

from tests.differential.shared import (
    BUDGETS,
    MAPS,
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
from tests.differential.steps import MERGE_PATCH, Json, create, delete, feature, patch

_BUDGET = {"metadata": {"name": "a"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}}


def _merge(path: str, body: Json) -> Json:
    return patch(MERGE_PATCH, path, body)


CASES = feature(
    "generation",
    of_a_workload_grows_with_its_spec=(
        create(WORKLOADS, workload()),
        _merge(f"{WORKLOADS}/a", {"spec": {"paused": True}}),
        _merge(f"{WORKLOADS}/a", {"spec": {"paused": False}}),
    ),
    of_a_workload_not_with_its_labels=(
        create(WORKLOADS, workload()),
        _merge(f"{WORKLOADS}/a", {"metadata": {"labels": {"x": "y"}}}),
    ),
    of_a_workload_not_with_its_status=(
        create(WORKLOADS, workload()),
        _merge(f"{WORKLOADS}/a/status", {"status": {"replicas": 1}}),
    ),
    of_a_workload_grows_when_it_goes=(
        create(WORKLOADS, workload(finalizers=["example.com/wait"])),
        delete(f"{WORKLOADS}/a"),
    ),
    of_a_budget=(
        create(BUDGETS, _BUDGET),
        _merge(f"{BUDGETS}/a", {"spec": {"minAvailable": 2}}),
        _merge(f"{BUDGETS}/a", {"metadata": {"labels": {"x": "y"}}}),
        _merge(f"{BUDGETS}/a/status", {"status": {"currentHealthy": 1}}),
    ),
    of_a_pod=(
        create(PODS, pod()),
        _merge(f"{PODS}/a", {"spec": {"activeDeadlineSeconds": 30}}),
        _merge(f"{PODS}/a", {"metadata": {"labels": {"x": "y"}}}),
    ),
    of_a_pod_that_goes=(create(PODS, pod(spec={"nodeName": "n1"})), delete(f"{PODS}/a?gracePeriodSeconds=5")),
    of_a_config_map_that_has_none=(create(MAPS, config_map()), _merge(f"{MAPS}/a", {"data": {"k": "v"}})),
    of_a_config_map_that_goes=(create(MAPS, config_map(finalizers=["example.com/wait"])), delete(f"{MAPS}/a")),
    of_a_role_that_has_none=(create(ROLES, role()), _merge(f"{ROLES}/a", {"rules": []})),
    of_a_service_that_has_none=(
        create(SERVICES, service()),
        _merge(f"{SERVICES}/a", {"spec": {"sessionAffinity": "ClientIP"}}),
    ),
    cannot_be_chosen=(
        create(WORKLOADS, workload(generation=9)),
        _merge(f"{WORKLOADS}/a", {"metadata": {"generation": 7}}),
    ),
)
