"""Allowed changes of objects in use: Services, Pods through subresources, signing requests."""

from __future__ import annotations

import base64
import copy
from typing import Any

import pytest

from tarmac.api.kubernetes.core.pods import subresources
from tarmac.api.kubernetes.core.services import families
from tarmac.api.kubernetes.strategies import strategy_for
from tarmac.base.fielderrors import FieldErrors
from tests.kubernetes.rules import Object, complete, container, pod, updated

MIRROR = {"kubernetes.io/config.mirror": "x"}
BALANCED: Object = {
    "metadata": {"name": "s", "namespace": "default"},
    "spec": {
        "type": "LoadBalancer",
        "clusterIP": "10.96.0.5",
        "clusterIPs": ["10.96.0.5"],
        "ipFamilies": ["IPv4"],
        "ipFamilyPolicy": "SingleStack",
        "externalTrafficPolicy": "Local",
        "healthCheckNodePort": 30001,
        "loadBalancerClass": "example.com/one",
        "ports": [{"port": 80, "nodePort": 30002}],
    },
}


def test_a_balanced_service_is_completed() -> None:
    made = complete("Service", {"spec": {"type": "LoadBalancer", "ports": [{"port": 80}]}})
    assert made["spec"]["allocateLoadBalancerNodePorts"] is True
    assert made["spec"]["externalTrafficPolicy"] == "Cluster"


def test_load_balancer_fields_go_with_the_type() -> None:
    made, errors = updated("Service", BALANCED, {"spec": {"type": "ClusterIP"}})
    assert errors == []
    gone = {"healthCheckNodePort", "allocateLoadBalancerNodePorts", "loadBalancerClass", "externalTrafficPolicy"}
    assert not gone & set(made["spec"])
    assert "nodePort" not in made["spec"]["ports"][0]


@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"loadBalancerClass": "example.com/other"}, "spec.loadBalancerClass"),
        ({"healthCheckNodePort": 30009}, "spec.healthCheckNodePort"),
        ({"healthCheckNodePort": 70000}, "spec.healthCheckNodePort"),
    ],
)
def test_load_balancer_fields_are_immutable(change: Object, field: str) -> None:
    errors = updated("Service", BALANCED, {"spec": change})[1]
    assert {error.split(":")[0] for error in errors} == {field}


def test_the_port_of_health_checks_is_kept_by_an_update_that_leaves_it_out() -> None:
    old = complete("Service", BALANCED)["spec"]
    new = {key: value for key, value in copy.deepcopy(old).items() if key != "healthCheckNodePort"}
    families.patch_allocated(new, old)
    assert new["healthCheckNodePort"] == 30001


BOTH: Object = {
    "type": "ClusterIP",
    "clusterIP": "10.96.0.5",
    "clusterIPs": ["10.96.0.5", "fd00:96::5"],
    "ipFamilies": ["IPv4", "IPv6"],
    "ipFamilyPolicy": "RequireDualStack",
}


def _refamilied(**change: Any) -> tuple[Object, list[str]]:
    new, errors = {**copy.deepcopy(BOTH), **change}, FieldErrors()
    families.normalise_addresses(new, BOTH)
    families.init_policy(new, BOTH)
    families.init_families(new, BOTH, errors)
    return new, [str(error) for error in errors]


def test_the_second_family_goes_when_one_is_asked_for() -> None:
    new, errors = _refamilied(ipFamilyPolicy="SingleStack")
    assert (new["clusterIPs"], new["ipFamilies"], errors) == (["10.96.0.5"], ["IPv4"], [])


def test_the_second_family_does_not_go_by_leaving_it_out() -> None:
    errors = _refamilied(clusterIPs=["10.96.0.5"], ipFamilies=["IPv4"])[1]
    assert [error.partition(" to release ")[2] for error in errors] == [
        "the secondary cluster IP",
        "the secondary IP family",
    ]


@pytest.mark.parametrize(
    ("change", "addresses"),
    [
        ({"clusterIPs": []}, ["10.96.0.5", "fd00:96::5"]),
        ({"clusterIP": ""}, []),
        ({"clusterIP": "10.96.0.6"}, ["10.96.0.6"]),
    ],
)
def test_the_name_that_was_changed_wins(change: Object, addresses: list[str]) -> None:
    new = {**copy.deepcopy(BOTH), **change}
    families.normalise_addresses(new, BOTH)
    assert new["clusterIPs"] == addresses


@pytest.mark.parametrize(
    ("entry", "fields"),
    [
        ({"ip": "192.0.2.1", "ipMode": "VIP"}, []),
        ({"ip": "192.0.2.1"}, ["ipMode"]),
        ({"ip": "192.0.2.1", "ipMode": "Some"}, ["ipMode"]),
        ({"ip": "300.0.2.1", "ipMode": "VIP"}, ["ip"]),
        ({"hostname": "a.example", "ipMode": "VIP"}, ["ipMode"]),
        ({"hostname": "192.0.2.1"}, ["hostname"]),
        ({"hostname": "not_a_name"}, ["hostname"]),
    ],
)
def test_where_a_balancer_says_it_is(entry: Object, fields: list[str]) -> None:
    old = complete("Service", BALANCED)
    new, errors = copy.deepcopy(old), FieldErrors()
    new["status"] = {"loadBalancer": {"ingress": [entry]}}
    strategy_for("", "Service").validate_status_update(new, old, errors)
    assert [error.path for error in errors] == [f"status.loadBalancer.ingress[0].{field}" for field in fields]


def _resized(old: Object, spec: Object) -> list[str]:
    new, errors = copy.deepcopy(old), FieldErrors()
    new["spec"].update(copy.deepcopy(spec))
    subresources.prepare_resize(new, old)
    subresources.validate_resize(new, old, errors)
    return [str(error) for error in errors]


def _sized(cpu: str, **fields: Any) -> Object:
    return container(resources={"requests": {"cpu": cpu}}, **fields)


def _whole(*containers: Object, **spec: Any) -> Object:
    return complete("Pod", pod(*containers, **spec))


def test_the_mirror_of_a_manifest_neither_grows_nor_is_debugged() -> None:
    mirror, errors = _whole(_sized("1"), nodeName="n"), FieldErrors()
    mirror["metadata"]["annotations"] = MIRROR
    assert _resized(mirror, {}) == ["[]: Forbidden: static pods cannot be resized"]
    subresources.validate_ephemeral_update(mirror, mirror, errors)
    assert [str(error) for error in errors] == ["[]: Forbidden: static pods do not support ephemeral containers"]


def test_a_resize_neither_adds_nor_renames_containers() -> None:
    old = _whole(_sized("1"))
    named = old["spec"]["containers"][0]
    two = [named, {**named, "name": "d"}]
    assert _resized(old, {"containers": two}) == [
        "spec.containers: Forbidden: containers may not be added or removed on resize"
    ]
    assert _resized(old, {"containers": two[1:]}) == [
        "spec.containers[0].name: Forbidden: containers may not be renamed or reordered on resize"
    ]


def test_a_resize_stops_where_the_node_cannot_or_the_pod_is_sized_as_a_whole() -> None:
    old = _whole(_sized("1"))
    old["status"]["containerStatuses"] = [{"name": "c", "state": {"running": {}}}]
    assert _resized(old, {}) == ["spec: Forbidden: Pod running on node without support for resize"]
    old["status"]["containerStatuses"][0]["resources"] = {}
    assert _resized(old, {}) == []
    (error,) = _resized(_whole(_sized("1"), resources={"requests": {"cpu": "2"}}), {})
    assert error.startswith("[]: Forbidden: resize of pods with pod-level resources is forbidden")


@pytest.mark.parametrize(
    ("policy", "requests", "told"),
    [
        ({"restartPolicy": "Always"}, {"cpu": "2"}, []),
        (
            {"restartPolicy": "Always"},
            {"cpu": "1", "ephemeral-storage": "1Gi"},
            ["spec: Forbidden: only cpu and memory resources for sidecar containers are mutable"],
        ),
        ({}, {"cpu": "2"}, ["spec: Forbidden: resources for non-sidecar init containers are immutable"]),
    ],
)
def test_of_init_containers_only_sidecars_are_resized(policy: Object, requests: Object, told: list[str]) -> None:
    old = _whole(_sized("1"), initContainers=[{**_sized("1"), "name": "i", **policy}])
    changed = {**old["spec"]["initContainers"][0], "resources": {"requests": requests}}
    assert _resized(old, {"initContainers": [changed]}) == told


def _required(*terms: Object) -> Object:
    return {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [*terms]}}}


def _asks(**labels: str) -> Object:
    return {"matchExpressions": [{"key": key, "operator": "In", "values": [value]} for key, value in labels.items()]}


@pytest.mark.parametrize(
    ("terms", "field"),
    [
        ([_asks(a="1", b="2")], ""),
        ([_asks(a="1"), _asks(b="2")], "nodeSelectorTerms"),
        ([_asks(b="2")], "nodeSelectorTerms[0]"),
    ],
)
def test_a_gated_pod_only_becomes_harder_to_please(terms: list[Object], field: str) -> None:
    old = pod(schedulingGates=[{"name": "wait"}], affinity=_required(_asks(a="1")))
    errors = updated("Pod", old, {"spec": {"affinity": _required(*terms)}})[1]
    path = f"spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.{field}"
    assert [error.split(":")[0] for error in errors] == ([path] if field else [])


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [({}, MIRROR, "may not add"), (MIRROR, {"kubernetes.io/config.mirror": "y"}, "may not remove or update")],
)
def test_a_pod_is_a_mirror_from_the_start_or_never(before: Object, after: Object, told: str) -> None:
    old = pod(nodeName="n")
    old["metadata"]["annotations"] = before
    errors = updated("Pod", old, {"metadata": {"annotations": after}})[1]
    assert any(f"{told} mirror pod annotation" in error for error in errors)


def _decided(*kinds: str, certificate: bytes = b"", message: str = "") -> Object:
    conditions = [{"type": kind, "status": "True", "message": message} for kind in kinds]
    status: Object = {"conditions": conditions}
    if certificate:
        status["certificate"] = base64.b64encode(certificate).decode()
    return {"metadata": {"name": "r"}, "spec": {"signerName": "a.example/x"}, "status": status}


def _told(new: Object, old: Object) -> list[str]:
    errors = FieldErrors()
    strategy_for("certificates.k8s.io", "CertificateSigningRequest").validate_status_update(new, old, errors)
    return [str(error).partition("\n")[0] for error in errors]


def test_signers_cannot_change_approvals() -> None:
    undecided, approved = _decided(), _decided("Approved")
    assert _told(approved, undecided) == [
        'status.conditions: Forbidden: updates may not add a condition of type "Approved"'
    ]
    assert _told(_decided("Approved", message="other"), approved) == [
        'status.conditions: Forbidden: updates may not modify a condition of type "Approved"'
    ]
    assert _told(undecided, approved) == [
        'status.conditions: Forbidden: updates may not remove a condition of type "Approved"'
    ]


def test_a_request_is_approved_or_denied_and_not_both() -> None:
    both = _decided("Approved", "Denied")
    assert 'status.conditions: Invalid value: "Denied": Approved and Denied conditions are mutually exclusive' in _told(
        both, _decided("Approved")
    )


def test_signed_certificates_are_valid_and_immutable() -> None:
    text = b"-----BEGIN CERTIFICATE-----\nnot really\n-----END CERTIFICATE-----\n"
    (invalid,) = _told(_decided("Approved", certificate=text), _decided("Approved"))
    assert invalid.startswith('status.certificate: Invalid value: "<certificate data>"')
    last = _told(_decided("Approved"), _decided("Approved", certificate=text))[-1]
    assert last == "status.certificate: Forbidden: updates may not modify existing certificate content"


def test_an_approval_changes_conditions_and_nothing_else() -> None:
    old, new = _decided(certificate=b"x"), _decided("Approved", certificate=b"y")
    strategy: Any = strategy_for("certificates.k8s.io", "CertificateSigningRequest")
    new["spec"]["signerName"] = "other.example/x"
    strategy.prepare_approval(new, old)
    assert new["status"] == {**old["status"], "conditions": _decided("Approved")["status"]["conditions"]}
    assert new["spec"] == old["spec"]
