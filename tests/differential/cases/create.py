"""POST to a collection."""

from __future__ import annotations

from tests.differential.samples import SAMPLES
from tests.differential.shared import (
    CORE,
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
from tests.differential.steps import MERGE_PATCH, Json, create, feature, get, patch

_DOWNWARD = {"path": "labels", "fieldRef": {"fieldPath": "metadata.labels"}}
_TERM = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "x"}}}
_SPREAD = {
    "maxSkew": 1,
    "topologyKey": "zone",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchExpressions": [{"key": "app", "operator": "In", "values": ["x"]}]},
}
_LIMITS = {
    "metadata": {"name": "l"},
    "spec": {
        "limits": [
            {"type": "Container", "default": {"cpu": "1"}, "defaultRequest": {"cpu": "500m"}, "max": {"cpu": "2"}}
        ]
    },
}
_RESTRICTED = {"pod-security.kubernetes.io/enforce": "restricted"}
_PRIVILEGED = {"pod-security.kubernetes.io/enforce": "privileged"}
_WARNED = {"pod-security.kubernetes.io/warn": "baseline", **_PRIVILEGED}


def _container(limits: Json) -> Json:
    return {"name": "main", "image": "registry.example/app", "resources": {"limits": limits}}


_FULL_POD = pod(
    spec={
        "initContainers": [{"name": "first", "image": "x", "restartPolicy": "Always"}],
        "containers": [
            {
                "name": "main",
                "image": "registry.example/app@sha256:" + "0" * 64,
                "env": [
                    {"name": "NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
                    {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}},
                ],
                "envFrom": [{"prefix": "P_", "configMapRef": {"name": "c"}}],
                "ports": [{"name": "http", "containerPort": 80}, {"containerPort": 53, "protocol": "UDP"}],
                "readinessProbe": {"httpGet": {"port": "http"}, "periodSeconds": 5},
                "livenessProbe": {"exec": {"command": ["true"]}},
                "startupProbe": {"tcpSocket": {"port": 80}},
                "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
                "resources": {
                    "requests": {"cpu": "0.25", "memory": "128Mi"},
                    "limits": {"cpu": "1", "memory": "0.5Gi"},
                },
                "volumeMounts": [{"name": "data", "mountPath": "/data"}, {"name": "conf", "mountPath": "/etc/conf"}],
                "securityContext": {"capabilities": {"drop": ["ALL"]}, "readOnlyRootFilesystem": True},
            }
        ],
        "volumes": [
            {"name": "data", "emptyDir": {"sizeLimit": "1Gi", "medium": "Memory"}},
            {"name": "conf", "configMap": {"name": "c", "items": [{"key": "k", "path": "p"}]}},
            {"name": "all", "projected": {"sources": [{"downwardAPI": {"items": [_DOWNWARD]}}]}},
            {"name": "host", "hostPath": {"path": "/x"}},
        ],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [_TERM]}},
        "topologySpreadConstraints": [_SPREAD],
        "tolerations": [{"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 5}],
        "securityContext": {
            "runAsNonRoot": True,
            "fsGroup": 7,
            "sysctls": [{"name": "net.core.somaxconn", "value": "9"}],
        },
        "dnsConfig": {"nameservers": ["192.0.2.53"], "options": [{"name": "ndots", "value": "2"}]},
        "hostAliases": [{"ip": "192.0.2.9", "hostnames": ["x.example"]}],
        "readinessGates": [{"conditionType": "example.com/ready"}],
    }
)

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
    a_pod_of_an_unknown_priority=create(PODS, pod(spec={"priorityClassName": "unheard"})),
    a_pod_of_a_system_priority=create(PODS, pod(spec={"priorityClassName": "system-node-critical"})),
    a_pod_of_an_unknown_runtime=create(PODS, pod(spec={"runtimeClassName": "unheard"})),
    a_pod_within_limits=(
        create(f"{CORE}/limitranges", _LIMITS),
        create(PODS, pod()),
        create(PODS, pod("b", {"containers": [_container({"cpu": "4"})]})),
    ),
    a_privileged_pod_in_a_restricted_namespace=(
        patch(MERGE_PATCH, "/api/v1/namespaces/$ns", {"metadata": {"labels": _RESTRICTED}}),
        create(PODS, pod(spec={"hostNetwork": True, "hostPID": True})),
    ),
    a_privileged_pod_with_a_warning=(
        patch(MERGE_PATCH, "/api/v1/namespaces/$ns", {"metadata": {"labels": _WARNED}}),
        create(PODS, pod(spec={"hostNetwork": True})),
    ),
    a_pod_with_everything=(
        # ours holds namespaces without labels to the baseline
        patch(MERGE_PATCH, "/api/v1/namespaces/$ns", {"metadata": {"labels": _PRIVILEGED}}),
        create(PODS, _FULL_POD),
    ),
    a_signing_request_that_is_none=create(
        "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        {"metadata": {"name": "$ns"}, "spec": {"request": "bm9uZQ==", "signerName": "bad", "usages": ["any thing"]}},
    ),
    an_external_service=create(
        SERVICES, service(spec={"type": "ExternalName", "externalName": "example.com", "ports": None})
    ),
    a_headless_service=create(SERVICES, service(spec={"clusterIP": "None"})),
    a_load_balancer=create(SERVICES, service(spec={"type": "LoadBalancer", "externalTrafficPolicy": "Local"})),
    a_service_on_ports_of_nodes=create(SERVICES, service(spec={"type": "NodePort"})),
    an_address_outside_the_range=create(SERVICES, service(spec={"clusterIP": "192.0.2.1"})),
)
