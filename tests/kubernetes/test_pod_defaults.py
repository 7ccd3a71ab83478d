"""Defaults of a Pod's missing fields."""

from __future__ import annotations

import pytest

from tarmac.api.kubernetes.strategies import strategy_for
from tests.kubernetes.rules import complete, container, pod


def test_the_smallest_pod_is_completed() -> None:
    made = complete("Pod", pod())
    assert made["spec"] == {
        "containers": [
            {
                "name": "c",
                "image": "nginx",
                "imagePullPolicy": "Always",
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
                "resources": {},
            }
        ],
        "dnsPolicy": "ClusterFirst",
        "enableServiceLinks": True,
        "restartPolicy": "Always",
        "schedulerName": "default-scheduler",
        "securityContext": {},
        "terminationGracePeriodSeconds": 30,
    }
    assert made["status"] == {"phase": "Pending", "qosClass": "BestEffort"}


def test_defaulting_twice_changes_nothing() -> None:
    made = complete("Pod", pod(container(livenessProbe={"httpGet": {"port": 80}}), volumes=[{"name": "v"}]))
    again = {**made, "spec": {**made["spec"]}}
    strategy_for("", "Pod").default(again)
    assert again == made


@pytest.mark.parametrize(
    ("image", "policy"),
    [
        ("nginx", "Always"),
        ("nginx:latest", "Always"),
        ("registry:5000/team/app", "Always"),
        ("nginx:1.2", "IfNotPresent"),
        ("nginx@sha256:" + "a" * 64, "IfNotPresent"),
        ("nginx:latest@sha256:" + "a" * 64, "Always"),
        ("Not A Reference", "IfNotPresent"),
        ("", "IfNotPresent"),
    ],
)
def test_the_pull_policy_follows_the_tag(image: str, policy: str) -> None:
    assert complete("Pod", pod(container(image=image)))["spec"]["containers"][0]["imagePullPolicy"] == policy


def test_requests_follow_limits() -> None:
    resources = {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}}
    made = complete("Pod", pod(container(resources=resources)))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "500m", "memory": "1Gi"}


def test_amounts_are_rounded_up_to_milli() -> None:
    made = complete("Pod", pod(container(resources={"requests": {"cpu": "100n", "memory": "1500u"}})))
    assert made["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "1m", "memory": "2m"}


def test_probes_and_hooks_are_completed() -> None:
    probe = {"httpGet": {"port": 80}}
    made = complete("Pod", pod(container(readinessProbe=probe, lifecycle={"preStop": {"httpGet": {"port": 1}}})))
    got = made["spec"]["containers"][0]
    assert got["readinessProbe"] == {
        "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
        "timeoutSeconds": 1,
        "periodSeconds": 10,
        "successThreshold": 1,
        "failureThreshold": 3,
    }
    assert got["lifecycle"]["preStop"]["httpGet"] == {"port": 1, "path": "/", "scheme": "HTTP"}


def test_volumes_are_completed() -> None:
    token = {"serviceAccountToken": {"path": "t"}}
    volumes = [
        {"name": "a"},
        {"name": "b", "configMap": {"name": "x"}},
        {"name": "c", "projected": {"sources": [token]}},
        {"name": "d", "hostPath": {"path": "/x"}},
        {"name": "e", "downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}},
    ]
    a, b, c, d, e = complete("Pod", pod(volumes=volumes))["spec"]["volumes"]
    assert a == {"name": "a", "emptyDir": {}}
    assert b["configMap"]["defaultMode"] == 0o644
    assert c["projected"]["sources"][0]["serviceAccountToken"]["expirationSeconds"] == 3600
    assert d["hostPath"]["type"] == ""
    assert e["downwardAPI"]["items"][0]["fieldRef"]["apiVersion"] == "v1"


def test_host_ports_follow_container_ports_on_the_host_network() -> None:
    made = complete("Pod", pod(container(ports=[{"containerPort": 80}]), hostNetwork=True))
    assert made["spec"]["containers"][0]["ports"] == [{"containerPort": 80, "protocol": "TCP", "hostPort": 80}]


def test_a_negative_grace_period_becomes_one_second() -> None:
    assert complete("Pod", pod(terminationGracePeriodSeconds=-5))["spec"]["terminationGracePeriodSeconds"] == 1


def test_pod_level_requests_follow_pod_level_limits() -> None:
    made = complete("Pod", pod(container(resources={"requests": {"cpu": "200m"}}), resources={"limits": {"cpu": "1"}}))
    assert made["spec"]["resources"] == {"limits": {"cpu": "1"}, "requests": {"cpu": "200m"}}


@pytest.mark.parametrize(
    ("resources", "quality"),
    [
        ({}, "BestEffort"),
        ({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}}, "BestEffort"),
        ({"requests": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1"}}, "Burstable"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "1000m", "memory": "1Gi"}}, "Guaranteed"),
        ({"limits": {"cpu": "0", "memory": "0"}}, "BestEffort"),
    ],
)
def test_the_quality_of_service_is_computed(resources: dict[str, dict[str, str]], quality: str) -> None:
    assert complete("Pod", pod(container(resources=resources)))["status"]["qosClass"] == quality


def test_a_gated_pod_says_so_in_its_status() -> None:
    made = complete("Pod", pod(schedulingGates=[{"name": "example.com/wait"}]))
    condition = made["status"]["conditions"][0]
    assert (condition["type"], condition["reason"]) == ("PodScheduled", "SchedulingGated")


def test_match_label_keys_become_expressions_over_the_pods_own_labels() -> None:
    term = {"topologyKey": "zone", "labelSelector": {"matchLabels": {"a": "b"}}, "matchLabelKeys": ["app", "missing"]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
    obj = pod(affinity={"podAntiAffinity": required})
    obj["metadata"]["labels"] = {"app": "web"}
    spec = complete("Pod", obj)["spec"]
    selector = spec["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"][0]["labelSelector"]
    assert selector["matchExpressions"] == [{"key": "app", "operator": "In", "values": ["web"]}]
