"""DELETE of a collection."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, SERVICES, WORKLOADS, config_map, pod, role, workload
from tests.differential.steps import create, delete, feature, get

_X = {"group": "x"}
_TWO_MAPS = (create(MAPS, config_map("a", labels=_X)), create(MAPS, config_map("b", labels=_X)))

CASES = feature(
    "deletecollection",
    config_maps_by_label=(*_TWO_MAPS, delete(f"{MAPS}?labelSelector=group=x"), get(f"{MAPS}?labelSelector=group=x")),
    roles=(create(ROLES, role()), create(ROLES, role("b")), delete(ROLES), get(ROLES)),
    workloads=(create(WORKLOADS, workload()), create(WORKLOADS, workload("b")), delete(WORKLOADS), get(WORKLOADS)),
    pods_by_field=(
        create(PODS, pod("a")),
        create(PODS, pod("b")),
        delete(f"{PODS}?fieldSelector=metadata.name=a"),
        get(PODS),
    ),
    pods_with_a_grace_period=(
        create(PODS, pod(spec={"nodeName": "n1"})),
        delete(PODS, {"gracePeriodSeconds": 5}),
        get(f"{PODS}/a"),
        delete(f"{PODS}/a?gracePeriodSeconds=0"),
    ),
    no_more_than_a_limit=(*_TWO_MAPS, delete(f"{MAPS}?labelSelector=group=x&limit=1"), get(f"{MAPS}/b")),
    of_another_uid=(*_TWO_MAPS[:1], delete(f"{MAPS}?labelSelector=group=x", {"preconditions": {"uid": "x"}})),
    in_all_namespaces=delete("/api/v1/configmaps"),
    nothing=delete(f"{PODS}?labelSelector=group=none"),
    services_one_at_a_time=delete(SERVICES),
    in_a_dry_run=(
        *_TWO_MAPS,
        delete(f"{MAPS}?labelSelector=group=x&dryRun=All"),
        get(f"{MAPS}?labelSelector=group=x"),
    ),
    with_a_selector_nobody_can_read=delete(f"{MAPS}?labelSelector=a%20b"),
    with_finalizers_in_the_way=(
        create(MAPS, config_map("a", labels=_X, finalizers=["example.com/wait"])),
        delete(f"{MAPS}?labelSelector=group=x"),
        get(f"{MAPS}?labelSelector=group=x"),
    ),
)
