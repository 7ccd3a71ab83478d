"""PATCH by a list of operations."""

from __future__ import annotations

from typing import Any

from tests.differential.shared import MAPS, PODS, ROLES, SERVICES, WORKLOADS, config_map, pod, role, service, workload
from tests.differential.steps import JSON_PATCH, Step, create, feature, patch

_MAP = create(MAPS, config_map(data={"k": "v", "l": "w"}))


def _patch(path: str, *operations: Any) -> Step:
    return patch(JSON_PATCH, path, list(operations))


def _op(op: str, path: str, *value: Any, **more: Any) -> Any:
    return {"op": op, "path": path, **({"value": value[0]} if value else {}), **more}


CASES = feature(
    "JSON patch",
    add_replace_and_remove=(
        _MAP,
        _patch(f"{MAPS}/a", _op("add", "/data/m", "x"), _op("replace", "/data/k", "y"), _op("remove", "/data/l")),
    ),
    a_test_that_holds=(_MAP, _patch(f"{MAPS}/a", _op("test", "/data/k", "v"), _op("remove", "/data/k"))),
    a_test_that_fails=(_MAP, _patch(f"{MAPS}/a", _op("test", "/data/k", "w"), _op("remove", "/data/k"))),
    move_and_copy=(
        _MAP,
        _patch(
            f"{MAPS}/a",
            {"op": "move", "from": "/data/k", "path": "/data/moved"},
            {"op": "copy", "from": "/data/l", "path": "/data/copied"},
        ),
    ),
    a_place_that_is_not_there=(_MAP, _patch(f"{MAPS}/a", _op("remove", "/data/nothing"))),
    replacing_what_is_not_there=(_MAP, _patch(f"{MAPS}/a", _op("replace", "/data/nothing", "x"))),
    adding_below_nothing=(_MAP, _patch(f"{MAPS}/a", _op("add", "/binaryData/deep/er", "x"))),
    keys_with_slashes=(
        _MAP,
        _patch(
            f"{MAPS}/a",
            _op("add", "/metadata/annotations", {}),
            _op("add", "/metadata/annotations/example.com~1x", "y"),
        ),
    ),
    a_container_of_a_pod=(
        create(PODS, pod()),
        _patch(f"{PODS}/a", _op("replace", "/spec/containers/0/image", "registry.example/app:2")),
    ),
    an_index_out_of_range=(create(PODS, pod()), _patch(f"{PODS}/a", _op("replace", "/spec/containers/7/image", "x"))),
    the_end_of_a_list=(
        create(SERVICES, service()),
        _patch(f"{SERVICES}/a", _op("add", "/spec/ports/-", {"name": "more", "port": 81})),
    ),
    a_rule_of_a_role=(create(ROLES, role()), _patch(f"{ROLES}/a", _op("add", "/rules/0/verbs/0", "list"))),
    a_workload=(
        create(WORKLOADS, workload()),
        _patch(f"{WORKLOADS}/a", _op("replace", "/spec/placements/0/scaleSettings/minReplicas", 4)),
    ),
    an_operation_nobody_knows=(_MAP, _patch(f"{MAPS}/a", _op("shuffle", "/data"))),
    something_that_is_no_list=(_MAP, patch(JSON_PATCH, f"{MAPS}/a", {"data": {}})),
    something_that_is_no_json=(_MAP, patch(JSON_PATCH, f"{MAPS}/a", b"[{]")),
    with_a_wrong_version=(
        _MAP,
        _patch(f"{MAPS}/a", _op("add", "/metadata/resourceVersion", "1"), _op("remove", "/data/k")),
    ),
    nothing_at_all=(_MAP, _patch(f"{MAPS}/a")),
    of_nothing=_patch(f"{MAPS}/a", _op("remove", "/data/k")),
)
