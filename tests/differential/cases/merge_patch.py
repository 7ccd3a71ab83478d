"""PATCH by a partial object."""

from __future__ import annotations

from typing import Any

from tests.differential.shared import MAPS, PODS, ROLES, SERVICES, WORKLOADS, config_map, pod, role, service, workload
from tests.differential.steps import MERGE_PATCH, Step, create, feature, patch

_MAP = create(MAPS, config_map(data={"k": "v", "l": "w"}, labels={"a": "b"})).keep(rv="metadata.resourceVersion")


def _merge(path: str, body: Any) -> Step:
    return patch(MERGE_PATCH, path, body)


CASES = feature(
    "merge patch",
    set_and_remove=(_MAP, _merge(f"{MAPS}/a", {"data": {"k": None, "m": "x"}, "metadata": {"labels": {"c": "d"}}})),
    a_whole_list=(create(ROLES, role()), _merge(f"{ROLES}/a", {"rules": []})),
    a_workload=(
        create(WORKLOADS, workload()),
        _merge(f"{WORKLOADS}/a", {"spec": {"paused": True}, "metadata": {"annotations": {"x": "y"}}}),
    ),
    lists_of_a_pod_are_replaced=(
        create(PODS, pod()),
        _merge(f"{PODS}/a", {"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}}),
    ),
    a_service=(create(SERVICES, service()), _merge(f"{SERVICES}/a", {"spec": {"selector": {"app": None, "x": "y"}}})),
    nothing_at_all=(_MAP, _merge(f"{MAPS}/a", {})),
    with_the_right_version=(_MAP, _merge(f"{MAPS}/a", {"metadata": {"resourceVersion": "$rv"}, "data": {"k": "x"}})),
    with_an_old_version=(
        _MAP,
        _merge(f"{MAPS}/a", {"data": {"k": "x"}}),
        _merge(f"{MAPS}/a", {"metadata": {"resourceVersion": "$rv"}, "data": {"k": "y"}}),
    ),
    another_name=(_MAP, _merge(f"{MAPS}/a", {"metadata": {"name": "b"}})),
    another_kind=(_MAP, _merge(f"{MAPS}/a", {"kind": "Unheard", "data": {"k": "x"}})),
    a_wrong_type=(_MAP, _merge(f"{MAPS}/a", {"data": ["k"]})),
    a_workload_with_a_wrong_type=(create(WORKLOADS, workload()), _merge(f"{WORKLOADS}/a", {"spec": {"paused": "yes"}})),
    something_that_is_no_object=(_MAP, _merge(f"{MAPS}/a", [1])),
    something_that_is_no_json=(_MAP, _merge(f"{MAPS}/a", b"{")),
    of_nothing=_merge(f"{MAPS}/nothing", {"data": {}}),
    a_workload_that_is_not_there=_merge(f"{WORKLOADS}/nothing", {"spec": {}}),
)
