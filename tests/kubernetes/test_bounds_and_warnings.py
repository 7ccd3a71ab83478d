"""Limits of numbers, and values that are accepted with a warning."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tarmac.api.kubernetes.priorityclasses import default_class
from tarmac.api.kubernetes.strategies import strategy_for
from tests.kubernetes.rules import Object, complete, container, pod, refused, refused_fields

DISCOVERY, EVENTS, STORAGE = "discovery.k8s.io", "events.k8s.io", "storage.k8s.io"


def _slice(kind: str = "IPv4", **fields: Any) -> Object:
    return {"metadata": {"name": "e", "namespace": "default"}, "addressType": kind, **fields}


def _rules(number: int, codes: int = 1) -> list[Object]:
    return [{"action": "Restart", "exitCodes": {"operator": "In", "values": [*range(1, codes + 1)]}}] * number


def _event(**fields: Any) -> Object:
    return {
        "metadata": {"name": "e", "namespace": "default"},
        "involvedObject": {"namespace": "default"},
        "eventTime": "2026-11-15T12:00:00.000000Z",
        "reportingComponent": "example.com/x",
        "reportingInstance": "x-1",
        "action": "Acting",
        "reason": "Because",
        "type": "Normal",
        **fields,
    }


ENDPOINT = {"addresses": ["192.0.2.1"]}
MOST: list[tuple[str, str, Object, Object, tuple[str, str]]] = [
    (
        "endpoints of a slice",
        DISCOVERY,
        _slice(endpoints=[ENDPOINT] * 1000),
        _slice(endpoints=[ENDPOINT] * 1001),
        ("TooMany", "endpoints"),
    ),
    (
        "ports of a slice",
        DISCOVERY,
        _slice(ports=[{"name": f"p{number}", "port": 1, "protocol": "TCP"} for number in range(20000)]),
        _slice(ports=[{"name": f"p{number}", "port": 1, "protocol": "TCP"} for number in range(20001)]),
        ("TooMany", "ports"),
    ),
    (
        "addresses of an endpoint",
        DISCOVERY,
        _slice(endpoints=[{"addresses": [f"192.0.2.{number}" for number in range(100)]}]),
        _slice(endpoints=[{"addresses": [f"192.0.2.{number}" for number in range(101)]}]),
        ("TooMany", "endpoints[0].addresses"),
    ),
    (
        "hints of an endpoint",
        DISCOVERY,
        _slice(endpoints=[{**ENDPOINT, "hints": {"forZones": [{"name": f"z{number}"} for number in range(8)]}}]),
        _slice(endpoints=[{**ENDPOINT, "hints": {"forZones": [{"name": f"z{number}"} for number in range(9)]}}]),
        ("TooMany", "endpoints[0].hints.forZones"),
    ),
]


@pytest.mark.parametrize(("group", "most", "more", "cause"), [row[1:] for row in MOST], ids=[row[0] for row in MOST])
def test_as_many_as_may_be_and_one_more(group: str, most: Object, more: Object, cause: tuple[str, str]) -> None:
    assert refused("EndpointSlice", most, group) == []
    assert refused_fields("EndpointSlice", more, group) == [cause]


def test_rules_of_restarting_and_their_exit_codes() -> None:
    def ruled(rules: list[Object]) -> Object:
        return pod(container(restartPolicy="Never", restartPolicyRules=rules))

    at = "spec.containers[0].restartPolicyRules"
    assert refused("Pod", ruled(_rules(20, 255))) == []
    assert refused_fields("Pod", ruled(_rules(21))) == [("TooLong", at)]
    assert refused_fields("Pod", ruled(_rules(1, 256))) == [("TooLong", f"{at}[0].exitCodes.values")]


def test_search_paths_of_resolvers() -> None:
    def searching(*paths: str) -> Object:
        return pod(dnsConfig={"searches": [*paths]})

    assert refused("Pod", searching(*["a.example"] * 32)) == []
    assert refused_fields("Pod", searching(*["a.example"] * 33)) == [("Invalid", "spec.dnsConfig.searches")]
    long = [".".join([letter * 60] * 4) for letter in "abcdefghi"]
    assert refused_fields("Pod", searching(*long)) == [("Invalid", "spec.dnsConfig.searches")], "2048 letters in all"


def test_a_secret_is_at_most_a_mebibyte() -> None:
    for size, causes in ((1 << 20, []), ((1 << 20) + 1, [("TooLong", "data")])):
        data = {"k": base64.b64encode(b"x" * size).decode()}
        assert refused_fields("Secret", {"data": data}) == causes


@pytest.mark.parametrize(
    ("parameters", "causes"),
    [
        ({f"k{number}": "" for number in range(512)}, []),
        ({f"k{number}": "" for number in range(513)}, [("TooLong", "parameters")]),
        ({"k": "x" * (256 << 10)}, [("TooLong", "parameters")]),
    ],
)
def test_parameters_of_a_storage_class(parameters: Object, causes: list[tuple[str, str]]) -> None:
    made = {"provisioner": "example.com/x", "parameters": parameters}
    assert refused_fields("StorageClass", made, STORAGE) == causes


def test_words_of_events() -> None:
    assert refused("Event", _event(reason="r" * 128, message="m" * 1024)) == []
    causes = refused_fields("Event", _event(reason="r" * 129, action="a" * 129, message="m" * 1025))
    assert causes == [("Invalid", "action"), ("Invalid", "reason"), ("Invalid", "message")]
    elsewhere = _event(involvedObject={}, metadata={"name": "e", "namespace": "shop"})
    assert ("Invalid", "involvedObject.namespace") in refused_fields("Event", elsewhere), (
        "of objects outside namespaces"
    )


def test_a_new_event_says_when_it_happened_and_when_again() -> None:
    event = _event(reportingController="example.com/x", regarding={"namespace": "default"}, series={"count": 2})
    assert refused_fields("Event", event, EVENTS) == [("Required", "series.lastObservedTime")]
    assert ("Required", "eventTime") in refused_fields("Event", {**event, "eventTime": None}, EVENTS)


def _warned(kind: str, obj: Object, group: str = "") -> list[str]:
    return strategy_for(group, kind).warnings(complete(kind, obj, group), None)


def _service(**spec: Any) -> Object:
    return {"metadata": {"name": "s", "namespace": "default"}, "spec": {"ports": [{"port": 80}], **spec}}


CLAIM: Object = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1500m"}}}
VOLUME: Object = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}


@pytest.mark.parametrize(
    ("kind", "obj", "group", "told"),
    [
        ("PersistentVolumeClaim", {"spec": CLAIM}, "", "spec.resources.requests[storage]: fractional byte value"),
        (
            "PersistentVolume",
            {"spec": {**VOLUME, "persistentVolumeReclaimPolicy": "Recycle"}},
            "",
            "spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated",
        ),
        (
            "Service",
            _service(trafficDistribution="PreferClose"),
            "",
            'spec.trafficDistribution: "PreferClose" is deprecated; use "PreferSameZone"',
        ),
        (
            "Service",
            _service(type="ExternalName", externalName="a.example", externalIPs=["192.0.2.1"]),
            "",
            'spec.externalIPs is ignored when spec.type is "ExternalName"',
        ),
        ("EndpointSlice", _slice("FQDN"), DISCOVERY, "spec.addressType: FQDN endpoints are deprecated"),
        (
            "ResourceQuota",
            {"spec": {"hard": {"requests.cpu": "2", "limits.cpu": "1"}}},
            "",
            "ResourceQuota requests.cpu (2) should be less than limits.cpu (1)",
        ),
        (
            "Pod",
            pod(container(resources={"requests": {"memory": "1500m"}})),
            "",
            'spec.containers[0].resources.requests[memory]: fractional byte value "1500m" is invalid',
        ),
    ],
)
def test_accepted_with_a_warning(kind: str, obj: Object, group: str, told: str) -> None:
    assert any(warning.startswith(told) for warning in _warned(kind, obj, group))


def test_the_class_of_a_claim_is_no_annotation_any_more() -> None:
    annotated = {"volume.beta.kubernetes.io/storage-class": "fast"}
    claim = {"metadata": {"name": "c", "namespace": "default", "annotations": annotated}, "spec": CLAIM}
    assert _warned("PersistentVolumeClaim", claim)[0].startswith("metadata.annotations[volume.beta.kubernetes.io")


def test_of_several_default_classes_the_lowest_counts() -> None:
    assert default_class([{"value": 1}]) is None
    classes = [{"value": 5, "globalDefault": True}, {"globalDefault": True}, {"value": -1}]
    assert default_class(classes) == {"globalDefault": True}, "a class without a value has none, which is 0"
