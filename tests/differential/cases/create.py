"""POST to a collection."""

from __future__ import annotations

from tests.differential.samples import SAMPLES
from tests.differential.shared import MAPS, PODS, ROLES, SERVICES, WORKLOADS, config_map, pod, role, service, workload
from tests.differential.steps import create, feature, get

CASES = feature(
    "create",
    a_config_map=(create(MAPS, config_map(data={"k": "v"}, labels={"app": "x"})), get(f"{MAPS}/a")),
    a_pod_with_its_defaults=create(PODS, pod()),
    a_service_with_its_defaults=create(SERVICES, service()),
    a_role=create(ROLES, role()),
    a_workload=create(WORKLOADS, workload()),
    a_name_that_exists=(create(MAPS, config_map()), create(MAPS, config_map())),
    a_workload_that_exists=(create(WORKLOADS, workload()), create(WORKLOADS, workload())),
    what_the_server_decides_is_ignored=create(
        MAPS,
        config_map(
            uid="7b1e0f1c-0000-0000-0000-000000000000",
            creationTimestamp="2001-01-01T00:00:00Z",
            generation=7,
            selfLink="/nowhere",
            deletionTimestamp="2001-01-01T00:00:00Z",
            deletionGracePeriodSeconds=5,
        ),
    ),
    with_a_resource_version=create(MAPS, config_map(resourceVersion="1")),
    in_another_namespace_than_the_path=create(MAPS, config_map(namespace="elsewhere")),
    without_a_name=create(MAPS, {"metadata": {}}),
    of_another_kind_than_the_path=create(MAPS, pod()),
    with_every_mistake_told_at_once=create(
        PODS, pod("Bad_Name", {"containers": [{"name": "x"}, {"name": "x", "image": "y"}], "restartPolicy": "Maybe"})
    ),
    a_service_with_bad_ports=create(SERVICES, service(spec={"ports": [{"port": 0}, {"port": 70000, "name": "UP"}]})),
    a_role_with_bad_rules=create(ROLES, role(rules=[{"verbs": []}, {"verbs": ["get"], "resources": ["pods"]}])),
    a_workload_without_placements=create(WORKLOADS, {**workload(), "spec": {**workload()["spec"], "placements": []}}),
    in_a_namespace_that_is_not_there=create("/api/v1/namespaces/nowhere/configmaps", config_map()),
    **{f"a_{kind}": create(path, body) for kind, (path, body) in SAMPLES.items()},
)
