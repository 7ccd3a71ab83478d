"""The rules of the smaller kinds."""

from __future__ import annotations

import pytest

from tarmac.api.kubernetes.strategies import strategy_for
from tests.kubernetes.rules import Object, complete, refused, refused_fields, updated

RBAC = "rbac.authorization.k8s.io"
CLAIM: Object = {"spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}
VOLUME: Object = {
    "spec": {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"}}
}


def test_a_namespace_is_born_active_with_its_finalizer_and_its_name_as_a_label() -> None:
    made = complete("Namespace", {"metadata": {"name": "n"}})
    assert made["metadata"]["labels"] == {"kubernetes.io/metadata.name": "n"}
    assert made["spec"] == {"finalizers": ["kubernetes"]}
    assert made["status"] == {"phase": "Active"}


def test_finalizers_of_a_namespace_change_elsewhere() -> None:
    made, errors = updated("Namespace", {"metadata": {"name": "n"}}, {"spec": {"finalizers": []}})
    assert (made["spec"]["finalizers"], errors) == (["kubernetes"], [])


def test_a_claim_needs_modes_and_a_size() -> None:
    assert refused("PersistentVolumeClaim", {"spec": {}}) == [
        "spec.accessModes: Required value: at least 1 access mode is required",
        "spec.resources[storage]: Required value",
    ]
    mixed = {**CLAIM["spec"], "accessModes": ["ReadWriteOnce", "ReadWriteOncePod"]}
    assert refused_fields("PersistentVolumeClaim", {"spec": mixed}) == [("Forbidden", "spec.accessModes")]


def test_a_claim_changes_only_once_it_is_bound_and_never_shrinks_below_its_capacity() -> None:
    grown = {"spec": {"resources": {"requests": {"storage": "2Gi"}}}}
    (error,) = updated("PersistentVolumeClaim", CLAIM, grown)[1]
    assert error.startswith("spec: Forbidden: spec is immutable after creation except resources.requests")
    strategy = strategy_for("", "PersistentVolumeClaim")
    assert strategy.has_status


def test_a_bound_claim_may_grow() -> None:
    from tarmac.base.fielderrors import FieldErrors

    strategy = strategy_for("", "PersistentVolumeClaim")
    old = complete("PersistentVolumeClaim", CLAIM)
    old["status"] = {"phase": "Bound", "capacity": {"storage": "1Gi"}}
    for size, causes in (("2Gi", []), ("512Mi", ["spec.resources.requests.storage"])):
        new = {**old, "spec": {**old["spec"], "resources": {"requests": {"storage": size}}}}
        errors = FieldErrors()
        strategy.validate_update(new, old, errors)
        assert [error.path for error in errors] == causes


def test_a_volume_has_one_source_for_life() -> None:
    assert refused("PersistentVolume", VOLUME) == []
    assert refused_fields("PersistentVolume", {"spec": {}}) == [
        ("Required", "spec.accessModes"),
        ("Required", "spec.capacity"),
        ("NotSupported", "spec.capacity"),
        ("Required", "spec"),
    ]
    (error,) = updated("PersistentVolume", VOLUME, {"spec": {"hostPath": {"path": "/y"}}})[1]
    assert error.startswith("spec.persistentvolumesource: Forbidden")


def test_a_local_volume_says_where_it_is() -> None:
    local = {**VOLUME["spec"], "local": {"path": "/x"}}
    del local["hostPath"]
    assert refused("PersistentVolume", {"spec": local}) == [
        "spec.nodeAffinity: Required value: Local volume requires node affinity"
    ]


def test_a_node_reports_its_own_status_from_the_start() -> None:
    made = complete("Node", {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "4"}}})
    assert made["status"]["allocatable"] == {"cpu": "4"}
    taints = [{"key": "a", "effect": "NoSchedule"}, {"key": "a", "effect": "NoSchedule"}, {"key": "b"}]
    assert refused_fields("Node", {"spec": {"taints": taints}}) == [
        ("Duplicate", "metadata.taints[1]"),
        ("Required", "metadata.taints[2].effect"),
    ]


def test_pod_ranges_and_provider_id_of_a_node_are_immutable() -> None:
    old = {"metadata": {"name": "n"}, "spec": {"providerID": "x", "podCIDRs": ["10.0.0.0/24"]}}
    changed = {"providerID": "y", "podCIDR": "10.1.0.0/24", "podCIDRs": ["10.1.0.0/24"]}
    errors = updated("Node", old, {"spec": changed})[1]
    assert [error.split(":")[0] for error in errors] == ["spec.podCIDRs", "spec.providerID"]


def test_quota_names_and_scopes() -> None:
    assert refused("ResourceQuota", {"spec": {"hard": {"pods": "1", "count/widgets.example.com": "5"}}}) == []
    bad = {"hard": {"foo": "1", "pods": "1500m"}, "scopes": ["BestEffort", "NotBestEffort"]}
    assert refused_fields("ResourceQuota", {"spec": bad}) == [
        ("Invalid", "spec.hard[foo]"),
        ("Invalid", "spec.hard[foo]"),
        ("Invalid", "spec.hard[pods]"),
        ("Invalid", "spec.scopes"),
    ]
    assert refused("ResourceQuota", {"spec": {"hard": {"cpu": "1"}, "scopes": ["BestEffort"]}}) == [
        'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource'
    ]


def test_a_limit_range_fills_in_its_own_defaults() -> None:
    item = {"type": "Container", "max": {"cpu": "2"}, "min": {"cpu": "1"}}
    made = complete("LimitRange", {"spec": {"limits": [item]}})["spec"]["limits"][0]
    assert (made["default"], made["defaultRequest"]) == ({"cpu": "2"}, {"cpu": "2"})


def test_bounds_of_a_limit_range_are_in_order() -> None:
    item = {"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}, "default": {"cpu": "1"}}
    assert refused("LimitRange", {"spec": {"limits": [item]}}) == [
        "spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'",
        'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
    ]


def test_rules_of_a_role() -> None:
    rules: list[Object] = [{}, {"verbs": ["get"], "nonResourceURLs": ["/x"]}]
    assert refused_fields("Role", {"rules": rules}, RBAC) == [
        ("Required", "rules[0].verbs"),
        ("Required", "rules[0].apiGroups"),
        ("Required", "rules[0].resources"),
        ("Invalid", "rules[1].nonResourceURLs"),
    ]
    assert refused("ClusterRole", {"rules": rules[1:]}, RBAC) == []


def test_a_binding_never_changes_its_role() -> None:
    old = {"roleRef": {"kind": "Role", "name": "a"}, "subjects": [{"kind": "User", "name": "u"}]}
    made = complete("RoleBinding", old, RBAC)
    assert (made["roleRef"]["apiGroup"], made["subjects"][0]["apiGroup"]) == (RBAC, RBAC)
    (error,) = updated("RoleBinding", old, {"roleRef": {"name": "b"}}, RBAC)[1]
    assert error.endswith("cannot change roleRef")


def test_an_event_belongs_to_the_namespace_of_its_object() -> None:
    event: Object = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": {"namespace": "other"}}
    assert refused("Event", event) == [
        'involvedObject.namespace: Invalid value: "other": does not match event.namespace'
    ]
    timed = {**event, "involvedObject": {}, "eventTime": "2026-11-15T12:00:00.000000Z"}
    assert [field for _, field in refused_fields("Event", timed)] == [
        "reportingComponent",
        "reportingComponent",
        "reportingComponent",
        "reportingInstance",
        "action",
        "reason",
    ]


def test_new_events_are_complete_and_only_their_series_grows() -> None:
    event: Object = {
        "metadata": {"name": "e", "namespace": "default"},
        "regarding": {"namespace": "default"},
        "eventTime": "2026-11-15T12:00:00.000000Z",
        "reportingController": "example.com/x",
        "reportingInstance": "x-1",
        "action": "Acting",
        "reason": "Because",
        "type": "Normal",
    }
    assert refused("Event", event, "events.k8s.io") == []
    series = {"series": {"count": 2, "lastObservedTime": "2026-11-15T12:00:01.000000Z"}}
    assert updated("Event", event, series, "events.k8s.io")[1] == []
    assert updated("Event", event, {"note": "other"}, "events.k8s.io")[1] == [
        'message: Invalid value: "other": field is immutable'
    ]


@pytest.mark.parametrize(
    ("group", "kind", "obj", "fields"),
    [
        ("coordination.k8s.io", "Lease", {"spec": {"leaseDurationSeconds": 0}}, ["spec.leaseDurationSeconds"]),
        ("policy", "PodDisruptionBudget", {"spec": {"minAvailable": "101%"}}, ["spec.minAvailable"]),
        ("policy", "PodDisruptionBudget", {"spec": {"minAvailable": 1, "maxUnavailable": 1}}, ["spec"]),
        ("scheduling.k8s.io", "PriorityClass", {"value": 2_000_000_000}, ["value"]),
        (
            "scheduling.k8s.io",
            "PriorityClass",
            {"metadata": {"name": "system-own"}, "value": 1},
            ["metadata.name"],
        ),
        ("node.k8s.io", "RuntimeClass", {"handler": "Not_a_label"}, ["handler"]),
        ("storage.k8s.io", "StorageClass", {"volumeBindingMode": "Later"}, ["provisioner", "volumeBindingMode"]),
        ("discovery.k8s.io", "EndpointSlice", {"addressType": "IPv9"}, ["addressType"]),
        (
            "discovery.k8s.io",
            "EndpointSlice",
            {"addressType": "IPv4", "endpoints": [{"addresses": ["fd00::1"]}]},
            ["endpoints[0].addresses"],
        ),
        ("", "Endpoints", {"subsets": [{}]}, ["subsets[0]"]),
        (
            "certificates.k8s.io",
            "CertificateSigningRequest",
            {"spec": {"request": "eA==", "signerName": "kubernetes.io/legacy-unknown"}},
            ["spec.request", "spec.usages", "spec.signerName"],
        ),
    ],
)
def test_refusals(group: str, kind: str, obj: Object, fields: list[str]) -> None:
    assert [field for _, field in refused_fields(kind, obj, group)] == fields


@pytest.mark.parametrize(
    ("group", "kind", "old", "changes", "field"),
    [
        ("scheduling.k8s.io", "PriorityClass", {"value": 1}, {"value": 2}, "value"),
        ("node.k8s.io", "RuntimeClass", {"handler": "a"}, {"handler": "b"}, "handler"),
        ("storage.k8s.io", "StorageClass", {"provisioner": "a"}, {"provisioner": "b"}, "provisioner"),
        ("discovery.k8s.io", "EndpointSlice", {"addressType": "IPv4"}, {"addressType": "IPv6"}, "addressType"),
        ("", "ResourceQuota", {"spec": {"hard": {"pods": "1"}}}, {"spec": {"scopes": ["BestEffort"]}}, "spec.scopes"),
    ],
)
def test_immutable_fields_are_refused_on_update(
    group: str, kind: str, old: Object, changes: Object, field: str
) -> None:
    errors = updated(kind, old, changes, group)[1]
    assert [error.split(":")[0] for error in errors] == [field]
