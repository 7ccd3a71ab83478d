"""Unknown and repeated fields: rejected, warned of, or dropped silently."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, WORKLOADS, config_map, pod, role, workload
from tests.differential.steps import (
    APPLY_PATCH,
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
_TWICE_PATCHED = b'{"data":{"k":"v","k":"w"},"unheard":"of"}'
_TWICE_ADDED = b'[{"op":"add","path":"/data/x","path":"/data","value":{"k":"w"},"why":"so"}]'
_TWICE_APPLIED = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata:\n  k: v\n  k: w\n"
_TWICE_APPLIED_JSON = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"v",\n"k":"w"}}'
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
    repeated_keys_in_patches=(
        create(MAPS, config_map()),
        *(
            patch(kind, f"{MAPS}/a?fieldValidation={mode}", body)
            for kind, body in (
                (MERGE_PATCH, _TWICE_PATCHED),
                (STRATEGIC_PATCH, _TWICE_PATCHED),
                (JSON_PATCH, _TWICE_ADDED),
            )
            for mode in ("Strict", "Warn", "Ignore")
        ),
    ),
    repeated_keys_in_an_apply=tuple(
        patch(APPLY_PATCH, f"{MAPS}/a?fieldManager=tester&fieldValidation={mode}", body)
        for body in (_TWICE_APPLIED, _TWICE_APPLIED_JSON)
        for mode in ("Strict", "Warn", "Ignore")
    ),
    a_repeated_key_in_a_workload=(
        create(WORKLOADS, workload()),
        patch(MERGE_PATCH, f"{WORKLOADS}/a", b'{"metadata":{"labels":{"a":"b","a":"c"}},"imagined":true}'),
    ),
    an_apply=apply(f"{MAPS}/a?fieldValidation=Strict", {**config_map(), "unheard": "of"}),
    metadata_nobody_knows=create(f"{MAPS}?fieldValidation=Strict", config_map(unheard="of")),
    the_wrong_case=create(f"{MAPS}?fieldValidation=Strict", {"Metadata": {"name": "a"}, "metadata": {"name": "a"}}),
)
