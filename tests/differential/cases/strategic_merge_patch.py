"""PATCH by a partial object; lists are merged by key."""

from __future__ import annotations

from typing import Any

from tests.differential.shared import (
    ACCOUNTS,
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
from tests.differential.steps import STRATEGIC_PATCH, Step, create, feature, patch

_POD = create(PODS, pod(spec={"tolerations": [{"key": "x", "operator": "Exists", "effect": "NoSchedule"}]}))
_TWO_PORTS = create(SERVICES, service(spec={"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}))


def _strategic(path: str, body: Any) -> Step:
    return patch(STRATEGIC_PATCH, path, body)


CASES = feature(
    "strategic merge patch",
    a_container_by_its_name=(
        _POD,
        _strategic(f"{PODS}/a", {"spec": {"containers": [{"name": "main", "image": "registry.example/app:2"}]}}),
    ),
    a_toleration_is_appended_or_replaced=(
        _POD,
        _strategic(f"{PODS}/a", {"spec": {"tolerations": [{"key": "y", "operator": "Exists"}]}}),
    ),
    a_port_by_its_number=(
        _TWO_PORTS,
        _strategic(f"{SERVICES}/a", {"spec": {"ports": [{"port": 81, "targetPort": "web"}]}}),
    ),
    a_port_is_deleted=(
        _TWO_PORTS,
        _strategic(f"{SERVICES}/a", {"spec": {"ports": [{"port": 80, "$patch": "delete"}]}}),
    ),
    ports_are_replaced=(
        _TWO_PORTS,
        _strategic(f"{SERVICES}/a", {"spec": {"ports": [{"port": 90, "name": "z"}, {"$patch": "replace"}]}}),
    ),
    ports_are_ordered=(
        _TWO_PORTS,
        _strategic(f"{SERVICES}/a", {"spec": {"$setElementOrder/ports": [{"port": 81}, {"port": 80}]}}),
    ),
    values_of_a_set_are_removed=(
        create(MAPS, config_map(finalizers=["example.com/a", "example.com/b"])),
        _strategic(f"{MAPS}/a", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}),
    ),
    values_of_a_set_are_added=(
        create(MAPS, config_map(finalizers=["example.com/a"])),
        _strategic(f"{MAPS}/a", {"metadata": {"finalizers": ["example.com/b"]}}),
    ),
    a_map_keeps_only_some_keys=(
        create(MAPS, config_map(data={"k": "v", "l": "w"})),
        _strategic(f"{MAPS}/a", {"data": {"$patch": "replace", "m": "x"}}),
    ),
    lists_without_a_key_are_replaced=(
        create(ROLES, role()),
        _strategic(f"{ROLES}/a", {"rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["get"]}]}),
    ),
    an_entry_without_its_key=(_POD, _strategic(f"{PODS}/a", {"spec": {"containers": [{"image": "x"}]}})),
    a_directive_nobody_knows=(
        create(MAPS, config_map(data={"k": "v"})),
        _strategic(f"{MAPS}/a", {"data": {"$patch": "shuffle"}}),
    ),
    a_workload_has_no_such_patch=(create(WORKLOADS, workload()), _strategic(f"{WORKLOADS}/a", {"spec": {}})),
    of_nothing=_strategic(f"{MAPS}/a", {"data": {}}),
    an_environment_variable=(
        create(PODS, pod()),
        _strategic(f"{PODS}/a", {"metadata": {"annotations": {"x": "y"}, "labels": {"$patch": "replace", "z": "w"}}}),
    ),
    keys_are_kept_by_name_only=(
        create(MAPS, config_map(data={"k": "v", "l": "w"})),
        _strategic(f"{MAPS}/a", {"data": {"$retainKeys": ["l"], "l": "x"}}),
    ),
    an_account_and_its_secrets=(
        create(ACCOUNTS, {"metadata": {"name": "b"}, "imagePullSecrets": [{"name": "x"}]}),
        _strategic(f"{ACCOUNTS}/b", {"imagePullSecrets": [{"name": "y"}]}),
    ),
)
