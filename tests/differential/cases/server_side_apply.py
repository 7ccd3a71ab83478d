"""PATCH by declared intent: ownership, conflicts, force."""

from __future__ import annotations

from tests.differential.samples import SAMPLES, without_labels
from tests.differential.shared import (
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
from tests.differential.steps import APPLY_PATCH, MERGE_PATCH, apply, create, feature, get, patch, put

_TWO = service(spec={"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]})
_ONE = service(spec={"ports": [{"name": "a", "port": 80}]})

CASES = feature(
    "server-side apply",
    creates=(apply(f"{MAPS}/a", config_map(data={"k": "v"})), get(f"{MAPS}/a")),
    creates_a_pod=apply(f"{PODS}/a", pod()),
    creates_a_workload=apply(f"{WORKLOADS}/a", workload()),
    twice_the_same=(
        apply(f"{MAPS}/a", config_map(data={"k": "v"})),
        apply(f"{MAPS}/a", config_map(data={"k": "v"})),
    ),
    what_is_left_out_goes=(
        apply(f"{MAPS}/a", config_map(data={"k": "v", "l": "w"})),
        apply(f"{MAPS}/a", config_map(data={"l": "w"})),
    ),
    what_others_own_stays=(
        apply(f"{MAPS}/a", config_map(data={"k": "v"})),
        patch(MERGE_PATCH, f"{MAPS}/a", {"data": {"other": "x"}}),
        apply(f"{MAPS}/a", config_map(data={})),
    ),
    a_conflict=(
        apply(f"{MAPS}/a", config_map(data={"k": "v"})),
        apply(f"{MAPS}/a", config_map(data={"k": "w"}), manager="other"),
    ),
    two_conflicts_with_two_managers=(
        apply(f"{MAPS}/a", config_map(data={"k": "v"})),
        put(f"{MAPS}/a?fieldManager=second", config_map(data={"k": "v", "l": "w"})),
        apply(f"{MAPS}/a", config_map(data={"k": "x", "l": "y"}), manager="third"),
    ),
    by_force=(
        apply(f"{MAPS}/a", config_map(data={"k": "v"})),
        apply(f"{MAPS}/a", config_map(data={"k": "w"}), manager="other", force=True),
    ),
    shared_ownership=(
        apply(f"{MAPS}/a", config_map(data={"k": "v"})),
        apply(f"{MAPS}/a", config_map(data={"k": "v"}), manager="other"),
        apply(f"{MAPS}/a", config_map(data={}), manager="other"),
    ),
    a_list_entry_by_its_keys=(apply(f"{SERVICES}/a", _TWO), apply(f"{SERVICES}/a", _ONE)),
    a_list_without_keys=(
        apply(f"{ROLES}/a", role()),
        apply(f"{ROLES}/a", role(rules=[]), manager="other"),
        apply(f"{ROLES}/a", role(rules=[]), manager="other", force=True),
    ),
    a_conflict_in_a_workload=(
        apply(f"{WORKLOADS}/a", workload()),
        apply(f"{WORKLOADS}/a", workload(replicas=3), manager="other"),
        apply(f"{WORKLOADS}/a", workload(replicas=3), manager="other", force=True),
    ),
    over_an_object_that_was_created=(
        create(MAPS, config_map(data={"k": "v"})),
        apply(f"{MAPS}/a", config_map(data={"k": "w"})),
    ),
    without_a_manager=patch(APPLY_PATCH, f"{MAPS}/a", config_map()),
    without_a_kind=apply(f"{MAPS}/a", {"metadata": {"name": "a"}}),
    under_another_name=apply(f"{MAPS}/a", config_map("b")),
    with_a_uid_nobody_has=apply(f"{MAPS}/a", config_map(uid="7b1e0f1c-0000-0000-0000-000000000000")),
    with_a_version_of_nothing=apply(f"{MAPS}/a", config_map(resourceVersion="1")),
    as_a_manager_with_a_strange_name=patch(APPLY_PATCH, f"{MAPS}/a?fieldManager=a%0Ab", config_map()),
    with_managed_fields=apply(f"{MAPS}/a", config_map(managedFields=[{"manager": "x", "operation": "Apply"}])),
    with_a_field_nobody_knows=apply(f"{MAPS}/a", {**config_map(), "unheard": "of"}),
    with_the_same_key_twice=apply(
        f"{SERVICES}/a", service(spec={"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 80}]})
    ),
    as_yaml=patch(
        APPLY_PATCH,
        f"{MAPS}/a?fieldManager=tester",
        b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: v\n",
    ),
    force_on_another_patch=(create(MAPS, config_map()), patch(MERGE_PATCH, f"{MAPS}/a?force=true", {"data": {}})),
    **{
        f"of_a_{kind}": (
            apply(f"{path}/{body['metadata']['name']}", body),
            apply(f"{path}/{body['metadata']['name']}", without_labels(body)),
        )
        for kind, (path, body) in SAMPLES.items()
    },
)
