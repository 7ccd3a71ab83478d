"""The scale subresource."""

from __future__ import annotations

from tests.differential.shared import DEPLOYMENTS, MAPS, PARTIAL, TABLE, config_map, deployment, meta
from tests.differential.steps import JSON_PATCH, MERGE_PATCH, apply, create, feature, get, patch, put

_RV = "metadata.resourceVersion"
_MADE = create(DEPLOYMENTS, deployment()).keep(rv=_RV)


def _scale(replicas: object, **metadata: object) -> object:
    kind = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": meta("a", **metadata)}
    return {**kind, "spec": {"replicas": replicas}}


CASES = feature(
    "scale",
    is_read=(_MADE, get(f"{DEPLOYMENTS}/a/scale")),
    is_written=(_MADE, put(f"{DEPLOYMENTS}/a/scale", _scale(5)), get(f"{DEPLOYMENTS}/a")),
    is_written_at_a_version=(_MADE, put(f"{DEPLOYMENTS}/a/scale", _scale(5, resourceVersion="$rv"))),
    with_an_old_version=(
        _MADE,
        put(f"{DEPLOYMENTS}/a/scale", _scale(5)),
        put(f"{DEPLOYMENTS}/a/scale", _scale(6, resourceVersion="$rv")),
    ),
    is_patched=(
        _MADE,
        patch(MERGE_PATCH, f"{DEPLOYMENTS}/a/scale", {"spec": {"replicas": 3}}),
        get(f"{DEPLOYMENTS}/a"),
    ),
    is_patched_by_operations=(
        _MADE,
        patch(JSON_PATCH, f"{DEPLOYMENTS}/a/scale", [{"op": "replace", "path": "/spec/replicas", "value": 2}]),
    ),
    is_applied=(
        apply(f"{DEPLOYMENTS}/a", deployment()),
        apply(f"{DEPLOYMENTS}/a/scale", _scale(4), manager="scaler"),
    ),
    below_nothing=(_MADE, put(f"{DEPLOYMENTS}/a/scale", _scale(-1))),
    in_a_dry_run=(_MADE, put(f"{DEPLOYMENTS}/a/scale?dryRun=All", _scale(5)), get(f"{DEPLOYMENTS}/a/scale")),
    as_a_table=(_MADE, get(f"{DEPLOYMENTS}/a/scale").accepting(TABLE)),
    as_metadata=(_MADE, get(f"{DEPLOYMENTS}/a/scale").accepting(PARTIAL)),
    of_nothing=get(f"{DEPLOYMENTS}/nothing/scale"),
    of_a_kind_without_one=(create(MAPS, config_map()), get(f"{MAPS}/a/scale")),
)
