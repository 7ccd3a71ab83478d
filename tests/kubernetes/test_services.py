"""Services: types, ports, families."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.kubernetes.core.services import families
from tarmac.base.fielderrors import FieldErrors
from tests.kubernetes.rules import complete, refused, refused_fields, updated


def service(**spec: Any) -> dict[str, Any]:
    return {"metadata": {"name": "s", "namespace": "default"}, "spec": {"ports": [{"port": 80}], **spec}}


def test_a_service_is_completed() -> None:
    assert complete("Service", service())["spec"] == {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "sessionAffinity": "None",
        "type": "ClusterIP",
        "internalTrafficPolicy": "Cluster",
    }


def test_client_ip_affinity_lasts_three_hours() -> None:
    made = complete("Service", service(sessionAffinity="ClientIP"))
    assert made["spec"]["sessionAffinityConfig"] == {"clientIP": {"timeoutSeconds": 10800}}


def test_ports_are_named_when_there_are_several() -> None:
    ports = [{"port": 0}, {"port": 1, "name": "a"}, {"port": 1, "name": "a", "targetPort": "-"}]
    assert refused_fields("Service", service(ports=ports)) == [
        ("Required", "spec.ports[0].name"),
        ("Invalid", "spec.ports[0].port"),
        ("Invalid", "spec.ports[0].targetPort"),
        ("Duplicate", "spec.ports[2].name"),
        ("Invalid", "spec.ports[2].targetPort"),
        ("Invalid", "spec.ports[2].targetPort"),
        ("Duplicate", "spec.ports[2]"),
    ]


@pytest.mark.parametrize(
    ("spec", "cause"),
    [
        ({"ports": []}, "spec.ports: Required value"),
        (
            {"type": "Magic"},
            'spec.type: Unsupported value: "Magic": supported values: "ClusterIP", '
            '"ExternalName", "LoadBalancer", "NodePort"',
        ),
        ({"type": "ExternalName"}, "spec.externalName: Required value"),
        (
            {"sessionAffinity": "Maybe"},
            'spec.sessionAffinity: Unsupported value: "Maybe": supported values: "ClientIP", "None"',
        ),
        (
            {"externalTrafficPolicy": "Local"},
            'spec.externalTrafficPolicy: Invalid value: "Local": may only be set for externally-accessible services',
        ),
        (
            {"ports": [{"port": 80, "nodePort": 30000}]},
            "spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'",
        ),
        (
            {"externalIPs": ["127.0.0.1"]},
            'spec.externalIPs[0]: Invalid value: "127.0.0.1": may not be in the loopback range (127.0.0.0/8, ::1/128)',
        ),
    ],
)
def test_refusals(spec: dict[str, Any], cause: str) -> None:
    assert cause in refused("Service", service(**spec))


def test_a_headless_service_needs_no_ports() -> None:
    assert refused("Service", service(ports=[], clusterIP="None", clusterIPs=["None"])) == []


def _families(old: dict[str, Any] | None = None, **spec: Any) -> tuple[dict[str, Any], list[str]]:
    made, errors = complete("Service", service(**spec))["spec"], FieldErrors()
    families.normalise_addresses(made, old)
    families.init_policy(made, old)
    families.init_families(made, old, errors)
    return made, [str(error) for error in errors]


@pytest.mark.parametrize(
    ("spec", "policy", "expected"),
    [
        ({}, "SingleStack", ["IPv4"]),
        ({"ipFamilyPolicy": "PreferDualStack"}, "PreferDualStack", ["IPv4", "IPv6"]),
        ({"ipFamilyPolicy": "RequireDualStack", "ipFamilies": ["IPv6"]}, "RequireDualStack", ["IPv6", "IPv4"]),
        ({"clusterIP": "fd00:96::5"}, "SingleStack", ["IPv6"]),
        ({"clusterIP": "None"}, "RequireDualStack", ["IPv4", "IPv6"]),
        ({"clusterIP": "None", "selector": {"a": "b"}}, "SingleStack", ["IPv4"]),
    ],
)
def test_families_follow_what_is_said(spec: dict[str, Any], policy: str, expected: list[str]) -> None:
    made, errors = _families(**spec)
    assert (made["ipFamilyPolicy"], made["ipFamilies"], errors) == (policy, expected, [])


def test_two_addresses_need_a_dual_stack_policy() -> None:
    _, errors = _families(clusterIP="10.96.0.5", clusterIPs=["10.96.0.5", "fd00:96::5"])
    assert errors == [
        "spec.ipFamilyPolicy: Invalid value: \"SingleStack\": must be 'RequireDualStack' or 'PreferDualStack' when "
        "multiple cluster IPs are specified"
    ]


STORED = service(clusterIP="10.96.0.5", clusterIPs=["10.96.0.5"], ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")


def test_the_cluster_address_stays() -> None:
    changed = {"spec": {"clusterIP": "10.96.0.6", "clusterIPs": ["10.96.0.6"]}}
    assert updated("Service", STORED, changed)[1] == [
        'spec.clusterIPs[0]: Invalid value: ["10.96.0.6"]: may not change once set'
    ]


def test_becoming_an_external_name_gives_the_address_back() -> None:
    made, errors = updated("Service", STORED, {"spec": {"type": "ExternalName", "externalName": "example.com"}})
    assert errors == []
    assert not {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"} & set(made["spec"])


def test_an_update_that_leaves_allocated_values_out_keeps_them() -> None:
    old: dict[str, Any] = {"type": "NodePort", "clusterIP": "10.96.0.5", "clusterIPs": ["10.96.0.5"]}
    old["ports"] = [{"port": 80, "protocol": "TCP", "nodePort": 31000}]
    new: dict[str, Any] = {"type": "NodePort", "ports": [{"port": 80, "protocol": "TCP"}]}
    families.patch_allocated(new, old)
    assert new["clusterIPs"] == ["10.96.0.5"]
    assert new["ports"][0]["nodePort"] == 31000
