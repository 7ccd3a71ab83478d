"""NetworkPolicies, kinds of volume drivers, and HorizontalPodAutoscalers of version 1."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.differential.shared import TABLE, meta
from tests.differential.steps import MERGE_PATCH, Json, Step, create, delete, feature, get, patch

_POLICIES = "/apis/networking.k8s.io/v1/namespaces/$ns/networkpolicies"
_STORAGE = "/apis/storage.k8s.io/v1"
_FIRST = "/apis/autoscaling/v1/namespaces/$ns/horizontalpodautoscalers"
_SECOND = "/apis/autoscaling/v2/namespaces/$ns/horizontalpodautoscalers"
_TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}


def _of(kind: str, version: str, **fields: Any) -> Json:
    return {"apiVersion": version, "kind": kind, "metadata": meta("a"), **fields}


def _policy(**spec: Any) -> Json:
    return _of("NetworkPolicy", "networking.k8s.io/v1", spec={"podSelector": {}, **spec})


def _storage(kind: str, name: str = "$ns", **fields: Any) -> Json:
    return {"apiVersion": "storage.k8s.io/v1", "kind": kind, "metadata": {"name": name}, **fields}


def _driver(**spec: Any) -> Json:
    return _storage("CSIDriver", spec=spec)


def _node(*drivers: Json) -> Json:
    return _storage("CSINode", spec={"drivers": list(drivers)})


def _first(**spec: Any) -> Json:
    fields = {"scaleTargetRef": _TARGET, "maxReplicas": 3, **spec}
    return _of("HorizontalPodAutoscaler", "autoscaling/v1", spec=fields)


def _written(path: str, make: Callable[..., Json], **specs: Json) -> dict[str, Step]:
    return {name: create(path, make(**spec)) for name, spec in specs.items()}


def _block(**block: Any) -> Json:
    return {"ingress": [{"from": [{"ipBlock": block}]}]}


_ONE_DRIVER = {"name": "d.example.com", "nodeID": "n", "topologyKeys": ["a"]}
_ATTACHMENT = {"attacher": "d.example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"}}
_MEMORY = {
    "type": "Resource",
    "resource": {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}},
}
_PODS = {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}}
_OBJECT = {
    "type": "Object",
    "object": {"describedObject": _TARGET, "metric": {"name": "o"}, "target": {"type": "Value", "value": "7"}},
}

CASES = [
    *feature(
        "network policies",
        from_begin_to_end=(
            create(_POLICIES, _policy(ingress=[{"ports": [{"port": 80}]}])),
            get(_POLICIES).accepting(TABLE),
            patch(MERGE_PATCH, f"{_POLICIES}/a", {"spec": {"egress": [{}]}}),
            get(f"{_POLICIES}/a"),
            delete(f"{_POLICIES}/a"),
        ),
        **_written(
            _POLICIES,
            _policy,
            nothing_at_all={},
            of_egress={"egress": [{"to": [{"podSelector": {"matchLabels": {"a": "b"}}}]}]},
            of_both_types={"policyTypes": ["Egress", "Ingress"]},
            of_an_unknown_type={"policyTypes": ["Sideways"]},
            of_three_types={"policyTypes": ["Egress", "Ingress", "Egress"]},
            of_a_range_of_ports={"ingress": [{"ports": [{"port": 80, "endPort": 90, "protocol": "UDP"}]}]},
            of_ports_backwards={"ingress": [{"ports": [{"port": 80, "endPort": 70}]}]},
            of_an_end_without_a_port={"ingress": [{"ports": [{"endPort": 70}]}]},
            of_an_end_of_a_name={"ingress": [{"ports": [{"port": "http", "endPort": 70}]}]},
            of_wrong_ports={
                "ingress": [{"ports": [{"port": 0}, {"port": "Not a name"}, {"port": 1, "protocol": "ICMP"}]}]
            },
            of_no_peer={"egress": [{"to": [{}]}]},
            of_a_peer_of_two_sorts={"egress": [{"to": [{"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}}]}]},
            of_pods_elsewhere={"ingress": [{"from": [{"podSelector": {}, "namespaceSelector": {}}]}]},
            of_a_wrong_selector={"podSelector": {"matchExpressions": [{"key": "a", "operator": "Near"}]}},
            of_a_range=_block(cidr="10.0.0.0/8", **{"except": ["10.1.0.0/16"]}),
            of_no_range=_block(cidr=""),
            of_a_wrong_range=_block(cidr="10.0.0.0/33", **{"except": ["nowhere"]}),
            of_an_odd_range=_block(cidr="10.0.0.1/8"),
            of_a_range_with_zeros=_block(cidr="010.0.0.0/8"),
            of_a_long_range=_block(cidr="2001:DB8:0::/64"),
            of_an_exception_outside=_block(cidr="10.0.0.0/8", **{"except": ["11.0.0.0/16", "10.0.0.0/8", "::/0"]}),
        ),
    ),
    *feature(
        "volume drivers",
        a_driver=(
            create(f"{_STORAGE}/csidrivers", _driver()),
            get(f"{_STORAGE}/csidrivers/$ns").accepting(TABLE),
            patch(MERGE_PATCH, f"{_STORAGE}/csidrivers/$ns", {"spec": {"podInfoOnMount": True}}),
            patch(MERGE_PATCH, f"{_STORAGE}/csidrivers/$ns", {"spec": {"attachRequired": False}}),
            patch(MERGE_PATCH, f"{_STORAGE}/csidrivers/$ns", {"spec": {"volumeLifecycleModes": ["Ephemeral"]}}),
            delete(f"{_STORAGE}/csidrivers/$ns"),
        ),
        **_written(
            f"{_STORAGE}/csidrivers",
            _driver,
            a_driver_of_an_unknown_policy={"fsGroupPolicy": "Maybe"},
            a_driver_of_an_unknown_mode={"volumeLifecycleModes": ["Sometimes"]},
            a_driver_with_tokens={"tokenRequests": [{"audience": "a"}, {"audience": "b", "expirationSeconds": 3600}]},
            a_driver_with_wrong_tokens={
                "tokenRequests": [{"audience": "a", "expirationSeconds": 5}, {"audience": "a"}, {"audience": "b"}]
            },
            a_driver_with_tokens_in_secrets={"serviceAccountTokenInSecrets": True},
            a_driver_that_asks_too_often={"nodeAllocatableUpdatePeriodSeconds": 5},
        ),
        a_node=(
            create(f"{_STORAGE}/csinodes", _node(_ONE_DRIVER)),
            get(f"{_STORAGE}/csinodes/$ns").accepting(TABLE),
            patch(
                MERGE_PATCH,
                f"{_STORAGE}/csinodes/$ns",
                {"spec": {"drivers": [{**_ONE_DRIVER, "allocatable": {"count": 5}}]}},
            ),
            delete(f"{_STORAGE}/csinodes/$ns"),
        ),
        a_node_of_wrong_drivers=create(
            f"{_STORAGE}/csinodes",
            _node(
                {"name": "", "nodeID": "", "topologyKeys": ["", "a", "a"]},
                {"name": "D_!", "nodeID": "x" * 300, "topologyKeys": None, "allocatable": {"count": -1}},
            ),
        ),
        room=(
            create(
                f"{_STORAGE}/namespaces/$ns/csistoragecapacities",
                _storage("CSIStorageCapacity", "a", storageClassName="s", capacity="1Gi"),
            ),
            get(f"{_STORAGE}/namespaces/$ns/csistoragecapacities").accepting(TABLE),
            patch(MERGE_PATCH, f"{_STORAGE}/namespaces/$ns/csistoragecapacities/a", {"storageClassName": "t"}),
            patch(MERGE_PATCH, f"{_STORAGE}/namespaces/$ns/csistoragecapacities/a", {"capacity": "2Gi"}),
            delete(f"{_STORAGE}/namespaces/$ns/csistoragecapacities/a"),
        ),
        wrong_room=create(
            f"{_STORAGE}/namespaces/$ns/csistoragecapacities",
            _storage("CSIStorageCapacity", "a", storageClassName="No_class", capacity="-1"),
        ),
        an_attachment=(
            create(f"{_STORAGE}/volumeattachments", _storage("VolumeAttachment", spec=_ATTACHMENT)),
            get(f"{_STORAGE}/volumeattachments/$ns").accepting(TABLE),
            patch(MERGE_PATCH, f"{_STORAGE}/volumeattachments/$ns/status", {"status": {"attached": True}}),
            patch(MERGE_PATCH, f"{_STORAGE}/volumeattachments/$ns", {"metadata": {"labels": {"a": "b"}}}),
            delete(f"{_STORAGE}/volumeattachments/$ns"),
        ),
        an_attachment_of_nothing=create(
            f"{_STORAGE}/volumeattachments", _storage("VolumeAttachment", spec={"attacher": "", "nodeName": "N!"})
        ),
        attributes=(
            create(
                f"{_STORAGE}/volumeattributesclasses",
                _storage("VolumeAttributesClass", driverName="d.example.com", parameters={"a": "b"}),
            ),
            get(f"{_STORAGE}/volumeattributesclasses/$ns").accepting(TABLE),
            patch(MERGE_PATCH, f"{_STORAGE}/volumeattributesclasses/$ns", {"parameters": {"a": "c"}}),
            patch(MERGE_PATCH, f"{_STORAGE}/volumeattributesclasses/$ns", {"driverName": "e.example.com"}),
            delete(f"{_STORAGE}/volumeattributesclasses/$ns"),
        ),
        wrong_attributes=create(
            f"{_STORAGE}/volumeattributesclasses", _storage("VolumeAttributesClass", driverName="", parameters={})
        ),
    ),
    *feature(
        "autoscalers of version 1",
        from_begin_to_end=(
            create(_FIRST, _first(targetCPUUtilizationPercentage=50)),
            get(f"{_FIRST}/a").accepting(TABLE),
            patch(MERGE_PATCH, f"{_FIRST}/a", {"spec": {"maxReplicas": 5}}),
            get(f"{_SECOND}/a"),
            patch(MERGE_PATCH, f"{_FIRST}/a/status", {"status": {"currentReplicas": 2, "desiredReplicas": 3}}),
            get(f"{_SECOND}/a"),
            get(_FIRST),
            delete(f"{_FIRST}/a"),
        ),
        without_a_target=(create(_FIRST, _first()), get(f"{_SECOND}/a")),
        other_metrics_are_annotations=(
            create(
                _SECOND,
                {
                    **_of("HorizontalPodAutoscaler", "autoscaling/v2"),
                    "spec": {
                        "scaleTargetRef": _TARGET,
                        "maxReplicas": 3,
                        "metrics": [_MEMORY, _PODS, _OBJECT],
                        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}},
                    },
                },
            ),
            get(f"{_FIRST}/a"),
            patch(MERGE_PATCH, f"{_FIRST}/a", {"spec": {"targetCPUUtilizationPercentage": 70}}),
            get(f"{_SECOND}/a"),
        ),
        annotations_of_a_wrong_form=(
            create(
                _FIRST,
                {
                    **_first(),
                    "metadata": {
                        "name": "a",
                        "annotations": {
                            "autoscaling.alpha.kubernetes.io/metrics": '[{"type":5}]',
                            "autoscaling.alpha.kubernetes.io/behavior": "{",
                            "kept": "yes",
                        },
                    },
                },
            ),
            get(f"{_SECOND}/a"),
        ),
        bounds=create(_FIRST, _first(minReplicas=5)),
        of_no_target=create(_FIRST, _first(targetCPUUtilizationPercentage=0)),
    ),
]
