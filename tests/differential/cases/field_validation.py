"""Unknown and repeated fields: refused, warned of, or dropped in silence."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, WORKLOADS, config_map, pod, role, workload
from tests.differential.steps import (
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    YAML,
    apply,
    create,
    feature,
    patch,
    put,
)

_ODD = {**config_map(data={"k": "v"}), "unheard": "of", "never": {"met": 1}}
_TWICE = b'{"metadata":{"name":"a"},"data":{"k":"v","k":"w"},"data":{"l":"x"}}'
_ODD_POD = pod(spec={"imagined": True, "containers": [{"name": "m", "image": "x", "colour": "red"}]})
_ODD_WORKLOAD = {**workload(), "spec": {**workload()["spec"], "imagined": True}}

CASES = feature(
    "fieldValidation",
    strict=create(f"{MAPS}?fieldValidation=Strict", _ODD),
    warn=create(f"{MAPS}?fieldValidation=Warn", _ODD),
    ignore=create(f"{MAPS}?fieldValidation=Ignore", _ODD),
    by_default_it_warns=create(MAPS, _ODD),
    a_mode_nobody_knows=create(f"{MAPS}?fieldValidation=Maybe", config_map()),
    fields_deep_in_a_pod=(create(f"{PODS}?fieldValidation=Strict", _ODD_POD), create(PODS, _ODD_POD)),
    repeated_keys=(create(f"{MAPS}?fieldValidation=Strict", _TWICE), create(MAPS, _TWICE)),
    repeated_keys_in_yaml=create(
        f"{MAPS}?fieldValidation=Strict", b"metadata: {name: a}\ndata:\n  k: v\n  k: w\n"
    ).sending(YAML),
    a_workload_strictly=create(f"{WORKLOADS}?fieldValidation=Strict", _ODD_WORKLOAD),
    a_workload_with_a_warning=create(WORKLOADS, _ODD_WORKLOAD),
    an_update=(create(ROLES, role()), put(f"{ROLES}/a?fieldValidation=Strict", {**role(), "unheard": "of"})),
    a_merge_patch=(
        create(MAPS, config_map()),
        patch(MERGE_PATCH, f"{MAPS}/a?fieldValidation=Strict", {"unheard": "of"}),
        patch(MERGE_PATCH, f"{MAPS}/a", {"unheard": "of"}),
    ),
    a_json_patch=(
        create(MAPS, config_map()),
        patch(JSON_PATCH, f"{MAPS}/a?fieldValidation=Strict", [{"op": "add", "path": "/unheard", "value": "of"}]),
    ),
    a_strategic_patch=(
        create(PODS, pod()),
        patch(STRATEGIC_PATCH, f"{PODS}/a?fieldValidation=Strict", {"spec": {"imagined": True}}),
    ),
    an_apply=apply(f"{MAPS}/a?fieldValidation=Strict", {**config_map(), "unheard": "of"}),
    metadata_nobody_knows=create(f"{MAPS}?fieldValidation=Strict", config_map(unheard="of")),
    the_wrong_case=create(f"{MAPS}?fieldValidation=Strict", {"Metadata": {"name": "a"}, "metadata": {"name": "a"}}),
)
