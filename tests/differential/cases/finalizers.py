"""Deletion that waits for finalizers."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, WORKLOADS, config_map, pod, role, workload
from tests.differential.steps import JSON_PATCH, MERGE_PATCH, create, delete, feature, get, patch, put, watch

_WAIT = "example.com/wait"
_MAP = create(MAPS, config_map(data={"k": "v"}, finalizers=[_WAIT]))
_RELEASE = {"metadata": {"finalizers": None}}

CASES = feature(
    "finalizers",
    keep_an_object=(_MAP, delete(f"{MAPS}/a"), get(f"{MAPS}/a")),
    the_last_one_lets_it_go=(
        _MAP,
        delete(f"{MAPS}/a"),
        patch(MERGE_PATCH, f"{MAPS}/a", _RELEASE),
        get(f"{MAPS}/a"),
    ),
    one_of_two_is_not_enough=(
        create(MAPS, config_map(finalizers=[_WAIT, "example.com/more"])),
        delete(f"{MAPS}/a"),
        patch(JSON_PATCH, f"{MAPS}/a", [{"op": "remove", "path": "/metadata/finalizers/0"}]),
    ),
    a_second_delete_changes_nothing=(_MAP, delete(f"{MAPS}/a"), delete(f"{MAPS}/a"), get(f"{MAPS}/a")),
    none_can_be_added_while_going=(
        _MAP,
        delete(f"{MAPS}/a"),
        patch(MERGE_PATCH, f"{MAPS}/a", {"metadata": {"finalizers": [_WAIT, "example.com/late"]}}),
    ),
    other_fields_can_change_while_going=(
        _MAP,
        delete(f"{MAPS}/a"),
        patch(MERGE_PATCH, f"{MAPS}/a", {"data": {"k": "w"}}),
    ),
    of_a_workload=(
        create(WORKLOADS, workload(finalizers=[_WAIT])).keep(rv="metadata.resourceVersion"),
        delete(f"{WORKLOADS}/a").keep(rv="metadata.resourceVersion"),
        put(f"{WORKLOADS}/a", workload(resourceVersion="$rv")),
        get(f"{WORKLOADS}/a"),
    ),
    of_a_pod=(
        create(PODS, pod(finalizers=[_WAIT])),
        delete(f"{PODS}/a"),
        patch(MERGE_PATCH, f"{PODS}/a", _RELEASE),
        get(f"{PODS}/a"),
    ),
    seen_by_a_watch=(
        create(ROLES, role(finalizers=[_WAIT])).keep(rv="metadata.resourceVersion"),
        watch(
            f"{ROLES}?resourceVersion=$rv",
            delete(f"{ROLES}/a"),
            patch(MERGE_PATCH, f"{ROLES}/a", _RELEASE),
            events=2,
        ),
    ),
    a_name_cannot_be_reused_meanwhile=(_MAP, delete(f"{MAPS}/a"), create(MAPS, config_map())),
    without_a_domain=create(MAPS, config_map(finalizers=["wait"])),
    badly_named=create(MAPS, config_map(finalizers=["example.com/not good"])),
    force_does_not_help=(
        create(PODS, pod(finalizers=[_WAIT])),
        delete(f"{PODS}/a?gracePeriodSeconds=0"),
        get(f"{PODS}/a"),
    ),
)
