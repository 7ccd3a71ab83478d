"""The status subresource."""

from __future__ import annotations

from tests.differential.shared import CORE, MAPS, PODS, SERVICES, WORKLOADS, config_map, pod, service, workload
from tests.differential.steps import JSON_PATCH, MERGE_PATCH, STRATEGIC_PATCH, apply, create, feature, get, patch, put

_RV = "metadata.resourceVersion"
_READY = {
    "type": "Ready",
    "status": "True",
    "reason": "Fine",
    "message": "",
    "lastTransitionTime": "2026-01-01T00:00:00Z",
}

CASES = feature(
    "status",
    of_a_pod=(
        create(PODS, pod()),
        patch(STRATEGIC_PATCH, f"{PODS}/a/status", {"status": {"phase": "Running", "podIP": "10.1.2.3"}}),
        get(f"{PODS}/a/status"),
    ),
    pod_conditions_merge_by_type=(
        create(PODS, pod()),
        patch(STRATEGIC_PATCH, f"{PODS}/a/status", {"status": {"conditions": [{"type": "Ready", "status": "False"}]}}),
        patch(STRATEGIC_PATCH, f"{PODS}/a/status", {"status": {"conditions": [{"type": "Mine", "status": "True"}]}}),
    ),
    is_ignored_on_create=create(PODS, {**pod(), "status": {"phase": "Running"}}),
    is_ignored_on_create_of_a_workload=create(WORKLOADS, {**workload(), "status": {"replicas": 7}}),
    is_ignored_on_update=(
        create(WORKLOADS, workload()).keep(rv=_RV),
        put(f"{WORKLOADS}/a", {**workload(resourceVersion="$rv"), "status": {"replicas": 7}}),
    ),
    of_a_workload_leaves_the_spec_alone=(
        create(WORKLOADS, workload()).keep(rv=_RV),
        put(
            f"{WORKLOADS}/a/status",
            {**workload(replicas=9, resourceVersion="$rv"), "status": {"replicas": 7, "conditions": [_READY]}},
        ),
        get(f"{WORKLOADS}/a"),
    ),
    labels_do_not_change_with_it=(
        create(SERVICES, service()),
        patch(MERGE_PATCH, f"{SERVICES}/a/status", {"metadata": {"labels": {"x": "y"}}}),
    ),
    labels_of_a_workload_do_not_change_with_it=(
        create(WORKLOADS, workload()),
        patch(MERGE_PATCH, f"{WORKLOADS}/a/status", {"metadata": {"labels": {"x": "y"}}, "status": {"replicas": 1}}),
    ),
    of_a_service=(
        create(SERVICES, service(spec={"type": "LoadBalancer"})),
        patch(MERGE_PATCH, f"{SERVICES}/a/status", {"status": {"loadBalancer": {"ingress": [{"ip": "192.0.2.7"}]}}}),
    ),
    an_invalid_one=(
        create(PODS, pod()),
        patch(MERGE_PATCH, f"{PODS}/a/status", {"status": {"podIPs": [{"ip": "nonsense"}]}}),
    ),
    with_an_old_version=(
        create(WORKLOADS, workload()).keep(rv=_RV),
        put(f"{WORKLOADS}/a/status", {**workload(resourceVersion="$rv"), "status": {"replicas": 1}}),
        put(f"{WORKLOADS}/a/status", {**workload(resourceVersion="$rv"), "status": {"replicas": 2}}),
    ),
    by_operations=(
        create(WORKLOADS, workload()),
        patch(JSON_PATCH, f"{WORKLOADS}/a/status", [{"op": "add", "path": "/status", "value": {"replicas": 3}}]),
    ),
    applied=(
        apply(f"{PODS}/a", pod()),
        apply(
            f"{PODS}/a/status",
            {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "status": {"message": "hello"}},
            manager="kubelet",
        ),
    ),
    of_a_kind_without_one=(create(MAPS, config_map()), get(f"{MAPS}/a/status")),
    of_nothing=put(f"{PODS}/a/status", pod()),
    cannot_be_created=(create(PODS, pod()), create(f"{PODS}/a/status", pod())),
    of_a_node=(
        create("/api/v1/nodes", {"metadata": {"name": "$ns"}, "status": {"capacity": {"cpu": "4", "memory": "8Gi"}}}),
        patch(
            STRATEGIC_PATCH,
            "/api/v1/nodes/$ns/status",
            {"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "R", "message": "m"}]}},
        ),
        get("/api/v1/nodes/$ns"),
    ),
    of_a_claim=(
        create(
            f"{CORE}/persistentvolumeclaims",
            {
                "metadata": {"name": "a"},
                "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
            },
        ),
        patch(MERGE_PATCH, f"{CORE}/persistentvolumeclaims/a/status", {"status": {"phase": "Bound"}}),
    ),
    of_a_namespace=patch(MERGE_PATCH, "/api/v1/namespaces/$ns/status", {"status": {"phase": "Active"}}),
)
