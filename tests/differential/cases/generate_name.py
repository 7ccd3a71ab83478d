"""Names that the server makes up."""

from __future__ import annotations

from tests.differential.shared import MAPS, PODS, ROLES, SERVICES, WORKLOADS, config_map, pod, role, service, workload
from tests.differential.steps import Json, apply, create, feature, get


def _nameless(body: Json, prefix: str = "some-") -> Json:
    return {**body, "metadata": {"generateName": prefix}}


CASES = feature(
    "generateName",
    a_config_map=(create(MAPS, _nameless(config_map())).keep(name="metadata.name"), get(f"{MAPS}/$name")),
    a_pod=create(PODS, _nameless(pod())),
    a_service=create(SERVICES, _nameless(service())),
    a_role=create(ROLES, _nameless(role())),
    a_workload=create(WORKLOADS, _nameless(workload())),
    a_long_prefix_is_cut=create(MAPS, _nameless(config_map(), "a" * 70)),
    a_bad_prefix=create(MAPS, _nameless(config_map(), "Bad_")),
    a_bad_prefix_for_a_service=create(SERVICES, _nameless(service(), "1-")),
    beside_a_name=create(MAPS, {"metadata": {"name": "a", "generateName": "some-"}}),
    in_a_dry_run=create(f"{MAPS}?dryRun=All", _nameless(config_map())),
    not_for_apply=apply(f"{MAPS}/a", {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"}}),
)
