"""Validation of Pods: all causes of invalid ones at once."""

from __future__ import annotations

from typing import Any

import pytest

from tests.kubernetes.rules import container, pod, refused, refused_fields


def test_a_plain_pod_is_fine() -> None:
    assert refused("Pod", pod()) == []


def test_a_pod_needs_a_container() -> None:
    assert refused("Pod", {"spec": {"containers": []}}) == ["spec.containers: Required value"]


def test_every_cause_is_reported_at_once() -> None:
    bad = {"name": "A_b", "image": " x", "ports": [{"containerPort": 0}], "imagePullPolicy": "Maybe"}
    assert refused_fields("Pod", pod(bad)) == [
        ("Invalid", "spec.containers[0].name"),
        ("Required", "spec.containers[0].ports[0].containerPort"),
        ("NotSupported", "spec.containers[0].imagePullPolicy"),
        ("Invalid", "spec.containers[0].image"),
    ]


def test_names_are_unique_over_regular_and_init_containers() -> None:
    twice = pod(container(), container(), initContainers=[{"name": "c", "image": "x"}])
    assert refused("Pod", twice) == [
        'spec.containers[1].name: Duplicate value: "c"',
        'spec.initContainers[0].name: Duplicate value: "c"',
    ]


PORTS: list[dict[str, Any]] = [
    {"containerPort": 80, "name": "http"},
    {"containerPort": 70000, "name": "-x", "protocol": "XX"},
    {"containerPort": 1, "name": "http", "hostPort": -1},
]


def test_ports() -> None:
    assert refused_fields("Pod", pod(container(ports=PORTS))) == [
        ("Invalid", "spec.containers[0].ports[1].name"),
        ("Invalid", "spec.containers[0].ports[1].containerPort"),
        ("NotSupported", "spec.containers[0].ports[1].protocol"),
        ("Duplicate", "spec.containers[0].ports[2].name"),
        ("Invalid", "spec.containers[0].ports[2].hostPort"),
    ]


def test_a_host_port_can_be_had_once() -> None:
    ports = [{"containerPort": 80, "hostPort": 80}, {"containerPort": 81, "hostPort": 80}]
    assert refused("Pod", pod(container(ports=ports))) == [
        'spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80"'
    ]


@pytest.mark.parametrize(
    ("variable", "kind", "field"),
    [
        ({"name": ""}, "Required", "name"),
        ({"name": "A=B"}, "Invalid", "name"),
        ({"name": "A", "valueFrom": {}}, "Invalid", "valueFrom"),
        ({"name": "A", "value": "x", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}, "Invalid", "valueFrom"),
        ({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}}, "Invalid", "valueFrom.fieldRef.fieldPath"),
        (
            {"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}},
            "NotSupported",
            "valueFrom.fieldRef.fieldPath",
        ),
        (
            {"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "3m"}}},
            "Invalid",
            "valueFrom.resourceFieldRef.divisor",
        ),
    ],
)
def test_environment(variable: dict[str, Any], kind: str, field: str) -> None:
    assert refused_fields("Pod", pod(container(env=[variable]))) == [(kind, f"spec.containers[0].env[0].{field}")]


def test_names_of_variables_may_be_unusual() -> None:
    env = [{"name": "1st.thing-here", "value": "x"}]
    assert refused("Pod", pod(container(env=env))) == []


def test_a_mount_needs_its_volume() -> None:
    mounts = [{"name": "gone", "mountPath": "/a"}, {"name": "v", "mountPath": "/a", "subPath": "../up"}]
    assert refused("Pod", pod(container(volumeMounts=mounts), volumes=[{"name": "v"}])) == [
        'spec.containers[0].volumeMounts[0].name: Not found: "gone"',
        'spec.containers[0].volumeMounts[1].mountPath: Invalid value: "/a": must be unique',
        "spec.containers[0].volumeMounts.subPath: Invalid value: \"../up\": must not contain '..'",
    ]


def test_a_broken_volume_cannot_be_mounted_either() -> None:
    mounts = [{"name": "v", "mountPath": "/a"}]
    volumes = [{"name": "v", "secret": {}}]
    assert refused("Pod", pod(container(volumeMounts=mounts), volumes=volumes)) == [
        "spec.volumes[0].secret.secretName: Required value",
        'spec.containers[0].volumeMounts[0].name: Not found: "v"',
    ]


def test_a_volume_has_one_source() -> None:
    volumes = [{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}]
    assert refused("Pod", pod(volumes=volumes)) == [
        "spec.volumes[0].secret: Forbidden: may not specify more than 1 volume type"
    ]


def test_requests_stay_below_limits() -> None:
    resources = {"limits": {"cpu": "1"}, "requests": {"cpu": "2"}}
    assert refused("Pod", pod(container(resources=resources))) == [
        'spec.containers[0].resources.requests: Invalid value: "2": must be less than or equal to cpu limit of 1'
    ]


def test_extended_resources_are_whole_and_not_overcommitted() -> None:
    resources = {"limits": {"example.com/gpu": "1500m"}, "requests": {"example.com/gpu": "1"}}
    assert refused_fields("Pod", pod(container(resources=resources))) == [
        ("Invalid", "spec.containers[0].resources.limits[example.com/gpu]"),
        ("Invalid", "spec.containers[0].resources.requests"),
    ]


def test_probes_have_one_handler() -> None:
    probes = container(
        livenessProbe={"successThreshold": 2, "exec": {"command": ["x"]}, "tcpSocket": {"port": 1}},
        readinessProbe={},
    )
    assert refused_fields("Pod", pod(probes)) == [
        ("Forbidden", "spec.containers[0].livenessProbe.tcpSocket"),
        ("Invalid", "spec.containers[0].livenessProbe.successThreshold"),
        ("Required", "spec.containers[0].readinessProbe"),
    ]


def test_only_sidecars_among_init_containers_have_probes() -> None:
    probe = {"exec": {"command": ["x"]}}
    init = [
        {"name": "step", "image": "x", "livenessProbe": probe},
        {"name": "sidecar", "image": "x", "restartPolicy": "Always", "livenessProbe": probe},
    ]
    assert refused("Pod", pod(initContainers=init)) == [
        "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without "
        "restartPolicy=Always"
    ]


@pytest.mark.parametrize(
    ("toleration", "cause"),
    [
        ({"operator": "Equal"}, ("Invalid", "spec.tolerations[0].operator")),
        ({"key": "a", "operator": "Exists", "value": "x"}, ("Invalid", "spec.tolerations[0].operator")),
        ({"key": "a", "operator": "Sometimes"}, ("NotSupported", "spec.tolerations[0].operator")),
        ({"key": "a", "effect": "Never"}, ("NotSupported", "spec.tolerations[0].effect")),
        ({"key": "a", "effect": "NoSchedule", "tolerationSeconds": 1}, ("Invalid", "spec.tolerations[0].effect")),
    ],
)
def test_tolerations(toleration: dict[str, Any], cause: tuple[str, str]) -> None:
    assert refused_fields("Pod", pod(tolerations=[toleration])) == [cause]


def test_affinity() -> None:
    terms = [{"matchExpressions": [{"key": "a", "operator": "In"}], "matchFields": [{"key": "x", "operator": "Gt"}]}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    path = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]"
    assert refused_fields("Pod", pod(affinity={"nodeAffinity": required})) == [
        ("Required", f"{path}.matchExpressions[0].values"),
        ("Invalid", f"{path}.matchFields[0].operator"),
        ("Invalid", f"{path}.matchFields[0].key"),
    ]


def test_topology_spread() -> None:
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "labelSelector": {}}
    spread = [constraint, {**constraint, "minDomains": 2}]
    path = "spec.topologySpreadConstraints"
    assert refused_fields("Pod", pod(topologySpreadConstraints=spread)) == [
        ("Duplicate", f"{path}[0].{{topologyKey, whenUnsatisfiable}}"),
        ("Invalid", f"{path}[1].minDomains"),
    ]


def test_security_context() -> None:
    context = {
        "runAsUser": -1,
        "allowPrivilegeEscalation": False,
        "privileged": True,
        "seccompProfile": {"type": "Localhost"},
    }
    assert refused_fields("Pod", pod(container(securityContext=context))) == [
        ("Invalid", "spec.containers[0].securityContext.runAsUser"),
        ("Required", "spec.containers[0].securityContext.seccompProfile.localhostProfile"),
        ("Invalid", "spec.containers[0].securityContext"),
    ]


def test_host_network_ports_must_be_the_same_on_both_sides() -> None:
    ports = [{"containerPort": 80, "hostPort": 81}]
    assert refused_fields("Pod", pod(container(ports=ports), hostNetwork=True)) == [
        ("Invalid", "spec.containers[0].ports[0].hostPort")
    ]


def test_dns() -> None:
    config = {"nameservers": ["1.2.3"], "searches": ["ok_name.local", "-bad"], "options": [{"value": "x"}]}
    assert refused_fields("Pod", pod(dnsPolicy="None", dnsConfig=config)) == [
        ("Invalid", "spec.dnsConfig.nameservers[0]"),
        ("Invalid", "spec.dnsConfig.searches[1]"),
        ("Required", "spec.dnsConfig.options[0]"),
    ]
    assert refused_fields("Pod", pod(dnsPolicy="None")) == [("Required", "spec.dnsConfig")]


def test_a_gated_pod_is_not_bound_and_ephemeral_containers_come_later() -> None:
    spec = {"schedulingGates": [{"name": "a/b"}], "nodeName": "n", "ephemeralContainers": [{"name": "e", "image": "x"}]}
    assert refused("Pod", pod(**spec)) == [
        "spec.ephemeralContainers: Forbidden: cannot be set on create",
        "spec.nodeName: Forbidden: cannot be set until all schedulingGates have been cleared",
    ]
