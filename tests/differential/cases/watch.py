"""Watches over lists and over single objects."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, TABLE, WORKLOADS, config_map, pod, role, workload
from tests.differential.steps import MERGE_PATCH, create, delete, feature, get, patch, put, watch

_RV = "metadata.resourceVersion"
_X = {"group": "x"}

CASES = feature(
    "watch",
    a_life=(
        get(f"{MAPS}?labelSelector=group=x").keep(rv=_RV),
        watch(
            f"{MAPS}?labelSelector=group=x&resourceVersion=$rv",
            create(MAPS, config_map(labels=_X)),
            put(f"{MAPS}/a", config_map(data={"k": "v"}, labels=_X)),
            delete(f"{MAPS}/a"),
            events=3,
        ),
    ),
    what_exists_comes_first=(
        create(PODS, pod("b")),
        create(PODS, pod("a")),
        get(PODS),
        watch(PODS, create(PODS, pod("c")), events=3),
    ),
    from_any_version=(create(ROLES, role()), get(ROLES), watch(f"{ROLES}?resourceVersion=0", events=1)),
    history_is_replayed=(
        create(WORKLOADS, workload()).keep(rv=_RV, kept=_RV),
        put(f"{WORKLOADS}/a", workload(replicas=2, resourceVersion="$rv")).keep(rv=_RV),
        put(f"{WORKLOADS}/a", workload(replicas=3, resourceVersion="$rv")),
        delete(f"{WORKLOADS}/a"),
        watch(f"{WORKLOADS}?resourceVersion=$kept", events=3),
    ),
    one_object_by_its_name=(
        create(MAPS, config_map()).keep(rv=_RV),
        watch(
            f"{MAPS}?fieldSelector=metadata.name=a&resourceVersion=$rv",
            create(MAPS, config_map("b")),
            delete(f"{MAPS}/a"),
            events=1,
        ),
    ),
    entering_and_leaving_a_selection=(
        create(MAPS, config_map()).keep(rv=_RV),
        watch(
            f"{MAPS}?labelSelector=group=x&resourceVersion=$rv",
            patch(MERGE_PATCH, f"{MAPS}/a", {"metadata": {"labels": _X}}),
            patch(MERGE_PATCH, f"{MAPS}/a", {"data": {"k": "v"}}),
            patch(MERGE_PATCH, f"{MAPS}/a", {"metadata": {"labels": None}}),
            events=3,
        ),
    ),
    entering_and_leaving_a_field_selection=(
        create(PODS, pod()).keep(rv=_RV),
        watch(
            f"{PODS}?fieldSelector=spec.nodeName=n1&resourceVersion=$rv",
            create(f"{PODS}/a/binding", {"target": {"kind": "Node", "name": "n1"}, "metadata": {"name": "a"}}),
            delete(f"{PODS}/a?gracePeriodSeconds=0"),
            events=2,
        ),
    ),
    with_a_time_limit=(
        create(MAPS, config_map(labels=_X)),
        get(f"{MAPS}?labelSelector=group=x"),
        watch(f"{MAPS}?labelSelector=group=x&timeoutSeconds=1", events=9),
    ),
    as_a_table=(
        create(ROLES, role()),
        get(ROLES),
        watch(ROLES, create(ROLES, role("b")), events=2).accepting(TABLE),
    ),
    entering_a_selection_as_a_table=(
        create(MAPS, config_map()).keep(rv=_RV),
        watch(
            f"{MAPS}?labelSelector=group=x&resourceVersion=$rv",
            patch(MERGE_PATCH, f"{MAPS}/a", {"metadata": {"labels": _X}}),
            events=1,
        ).accepting(TABLE),
    ),
    leaving_a_selection_as_a_table=(
        create(MAPS, config_map(data={"k": "v"}, labels=_X)).keep(rv=_RV),
        watch(
            f"{MAPS}?labelSelector=group=x&resourceVersion=$rv",
            patch(MERGE_PATCH, f"{MAPS}/a", {"metadata": {"labels": None}, "data": {"l": "w"}}),
            events=1,
        ).accepting(TABLE),
    ),
    having_entered_and_left_a_selection_as_a_table=(
        create(MAPS, config_map()).keep(rv=_RV),
        patch(MERGE_PATCH, f"{MAPS}/a", {"metadata": {"labels": _X}}).keep(entered=_RV),
        patch(MERGE_PATCH, f"{MAPS}/a", {"metadata": {"labels": None}}),
        watch(f"{MAPS}?labelSelector=group=x&resourceVersion=$rv", events=2).accepting(TABLE),
        watch(f"{MAPS}?labelSelector=group=x&resourceVersion=$entered", events=1).accepting(TABLE),
    ),
    from_a_version_that_is_no_number=watch(f"{MAPS}?resourceVersion=abc", events=1),
    from_a_version_of_the_future=watch(f"{MAPS}?resourceVersion=999999999&timeoutSeconds=1", events=1),
    by_the_old_path=(
        create(ROLES, role()),
        get(ROLES),
        watch("/apis/rbac.authorization.k8s.io/v1/watch/namespaces/$ns/roles", events=1),
    ),
    one_object_by_the_old_path=(
        create(MAPS, config_map()),
        get(MAPS).viewing(lambda _: None),
        watch("/api/v1/watch/namespaces/$ns/configmaps/a", events=1),
    ),
    a_create_nobody_made=watch(f"{MAPS}/nothing?timeoutSeconds=1", events=1),
    over_all_namespaces=(
        create(ROLES, role(labels={"of": "$ns"})).keep(rv=_RV),
        watch(
            "/apis/rbac.authorization.k8s.io/v1/roles?labelSelector=of=$ns&resourceVersion=$rv",
            delete(f"{ROLES}/a"),
            events=1,
        ),
    ),
    a_namespace=(
        get("/api/v1/namespaces/$ns").keep(rv=_RV),
        watch(
            "/api/v1/namespaces?fieldSelector=metadata.name=$ns&resourceVersion=$rv",
            patch(MERGE_PATCH, "/api/v1/namespaces/$ns", {"metadata": {"labels": {"x": "y"}}}),
            events=1,
        ),
    ),
    one_workload_by_its_name=(
        create(WORKLOADS, workload()).keep(rv=_RV),
        watch(
            f"{WORKLOADS}?fieldSelector=metadata.name=a&resourceVersion=$rv",
            delete(f"{WORKLOADS}/a"),
            events=1,
        ),
    ),
    in_yaml=watch(f"{ROLES}?timeoutSeconds=1", events=1).accepting("application/yaml"),
    with_a_time_limit_that_is_no_number=watch(f"{ROLES}?timeoutSeconds=soon", events=1),
)
