"""Kubernetes' own kinds are stored as Go would write them: dropped, added and canonical fields."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tarmac.api.catalog import Catalog
from tarmac.api.decode import decode_object
from tarmac.api.resource import Resource


def _decode(resource: Resource, body: Any) -> dict[str, Any]:
    decoded = decode_object(resource, json.dumps(body).encode(), "", "Strict")
    return {key: value for key, value in decoded.obj.items() if key not in ("apiVersion", "kind")}


def _find(catalog: Catalog, group: str, plural: str) -> Resource:
    resource = catalog.find(group, "v1", plural)
    assert resource is not None
    return resource


def test_empty_values_vanish_unless_they_mean_something(pods: Resource) -> None:
    container = {
        "name": "",
        "image": "",
        "command": [],
        "args": None,
        "stdin": False,
        "ports": [{"containerPort": 0, "hostPort": 0, "name": "", "hostIP": None}],
        "lifecycle": {},
        "securityContext": {"privileged": False},
        "livenessProbe": {"initialDelaySeconds": 0, "terminationGracePeriodSeconds": 0},
    }
    spec = _decode(pods, {"spec": {"containers": [container], "hostNetwork": False, "nodeSelector": {}}})["spec"]
    assert spec == {
        "containers": [
            {
                "name": "",
                "ports": [{"containerPort": 0}],
                "lifecycle": {},
                "resources": {},
                "securityContext": {"privileged": False},
                "livenessProbe": {"terminationGracePeriodSeconds": 0},
            }
        ]
    }


@pytest.mark.parametrize(
    ("group", "plural", "body", "expected"),
    [
        ("", "services", {}, {"metadata": {}, "spec": {}, "status": {"loadBalancer": {}}}),
        ("", "limitranges", {}, {"metadata": {}, "spec": {"limits": None}}),
        ("rbac.authorization.k8s.io", "roles", {}, {"metadata": {}, "rules": None}),
        ("rbac.authorization.k8s.io", "roles", {"rules": []}, {"metadata": {}, "rules": None}),
        (
            "discovery.k8s.io",
            "endpointslices",
            {"addressType": "IPv4"},
            {"metadata": {}, "addressType": "IPv4", "endpoints": None, "ports": None},
        ),
        (
            "policy",
            "poddisruptionbudgets",
            {},
            {
                "metadata": {},
                "spec": {},
                "status": {"disruptionsAllowed": 0, "currentHealthy": 0, "desiredHealthy": 0, "expectedPods": 0},
            },
        ),
        (
            "",
            "events",
            {},
            {
                "metadata": {},
                "involvedObject": {},
                "source": {},
                "firstTimestamp": None,
                "lastTimestamp": None,
                "eventTime": None,
                "reportingComponent": "",
                "reportingInstance": "",
            },
        ),
    ],
)
def test_fields_that_go_always_writes_are_present(
    catalog: Catalog, group: str, plural: str, body: Any, expected: Any
) -> None:
    assert _decode(_find(catalog, group, plural), body) == expected


def test_null_is_not_given(config_maps: Resource) -> None:
    assert _decode(config_maps, {"metadata": None, "data": None, "immutable": None}) == {"metadata": {}}


def test_null_in_lists_and_maps_is_a_zero_value(config_maps: Resource) -> None:
    body = {"metadata": {"finalizers": [None]}, "data": {"a": None}, "binaryData": {"b": None}}
    assert _decode(config_maps, body) == {"metadata": {"finalizers": [""]}, "data": {"a": ""}, "binaryData": {"b": ""}}


@pytest.mark.parametrize(
    ("given", "kept"),
    [("1000m", "1"), (1.5, "1500m"), (2, "2"), ("1024Mi", "1Gi"), ("0.5", "500m"), ("100m", "100m"), (None, "0")],
)
def test_quantities_are_canonical(pods: Resource, given: Any, kept: str) -> None:
    body = {"spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": given}}}]}}
    assert _decode(pods, body)["spec"]["containers"][0]["resources"]["limits"] == {"cpu": kept}


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2020-01-01T00:00:00Z", "2020-01-01T00:00:00Z"),
        ("2020-01-01T01:00:00.5+01:00", "2020-01-01T00:00:00Z"),
        ("2020-02-29T23:59:59-23:59", "2020-03-01T23:58:59Z"),
    ],
)
def test_times_are_whole_seconds_of_utc(config_maps: Resource, given: str, kept: str) -> None:
    assert _decode(config_maps, {"metadata": {"creationTimestamp": given}})["metadata"]["creationTimestamp"] == kept


def test_lease_times_keep_their_microseconds(catalog: Catalog) -> None:
    leases = _find(catalog, "coordination.k8s.io", "leases")
    body = {"spec": {"renewTime": "2020-01-01T02:00:00.000123+02:00"}}
    assert _decode(leases, body)["spec"] == {"renewTime": "2020-01-01T00:00:00.000123Z"}


@pytest.mark.parametrize(
    ("given", "kept"), [("YQ==", "YQ=="), ("Y\nQ=\r\n=", "YQ=="), ("YR==", "YQ=="), ("YWJj", "YWJj")]
)
def test_bytes_are_canonical_base64(config_maps: Resource, given: str, kept: str) -> None:
    assert _decode(config_maps, {"binaryData": {"a": given}})["binaryData"] == {"a": kept}


def test_checking_twice_changes_nothing(pods: Resource) -> None:
    body = {"metadata": {"name": "a"}, "spec": {"containers": [{"name": "c", "resources": {"limits": {"cpu": 1}}}]}}
    once = _decode(pods, body)
    assert _decode(pods, once) == once


def test_our_kinds_keep_what_was_written(workloads: Resource) -> None:
    spec = {"paused": False, "placements": [], "template": {"metadata": {"labels": {}}}}
    body = {"apiVersion": workloads.api_version, "kind": "Workload", "metadata": {"labels": {}}, "spec": spec}
    kept = _decode(workloads, body)
    assert kept["spec"]["paused"] is False
    assert kept["spec"]["placements"] == []
    assert kept["metadata"] == {}  # metadata is Go's for all kinds


def test_null_in_our_kinds_is_not_given(workloads: Resource) -> None:
    body = {"apiVersion": workloads.api_version, "kind": "Workload", "spec": {"paused": None, "placements": []}}
    assert "paused" not in _decode(workloads, body)["spec"]


def test_whole_floats_are_integers_in_our_kinds(workloads: Resource) -> None:
    placement = {"name": "a", "scaleSettings": {"minReplicas": 2.0}}
    body = {"apiVersion": workloads.api_version, "kind": "Workload", "spec": {"placements": [placement]}}
    replicas = _decode(workloads, body)["spec"]["placements"][0]["scaleSettings"]["minReplicas"]
    assert replicas == 2
    assert isinstance(replicas, int)
