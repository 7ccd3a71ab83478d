"""`autoscaling/v1` and `autoscaling/v2` are two forms of the same objects."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tests.server.conftest import Client

FIRST = "/apis/autoscaling/v1/namespaces/default/horizontalpodautoscalers"
SECOND = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
TARGET = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}
PREFIX = "autoscaling.alpha.kubernetes.io"
MEMORY = {"name": "memory", "target": {"type": "AverageValue", "averageValue": "1Gi"}}
METRICS: list[JsonObject] = [
    {"type": "Resource", "resource": MEMORY},
    {"type": "ContainerResource", "containerResource": {**MEMORY, "container": "c"}},
    {"type": "Pods", "pods": {"metric": {"name": "m"}, "target": {"type": "AverageValue", "averageValue": "5"}}},
    {
        "type": "Object",
        "object": {"describedObject": TARGET, "metric": {"name": "o"}, "target": {"type": "Value", "value": "7"}},
    },
    {
        "type": "External",
        "external": {
            "metric": {"name": "e", "selector": {"matchLabels": {"a": "b"}}},
            "target": {"type": "AverageValue", "averageValue": "3"},
        },
    },
]


def autoscaler(version: str, annotations: dict[str, str] | None = None, **spec: Any) -> JsonObject:
    metadata = {"name": "a", **({"annotations": annotations} if annotations else {})}
    spec = {"scaleTargetRef": TARGET, "maxReplicas": 3, **spec}
    kind = "HorizontalPodAutoscaler"
    return {"apiVersion": f"autoscaling/{version}", "kind": kind, "metadata": metadata, "spec": spec}


async def test_every_metric_and_the_behavior_survive_a_write_through_version_1(api: Client) -> None:
    behavior = {"scaleDown": {"stabilizationWindowSeconds": 60}}
    made = (await api("POST", SECOND, autoscaler("v2", metrics=METRICS, behavior=behavior))).json
    first = (await api("GET", f"{FIRST}/a")).json
    assert "targetCPUUtilizationPercentage" not in first["spec"]
    assert len(json.loads(first["metadata"]["annotations"][f"{PREFIX}/metrics"])) == len(METRICS)
    first["spec"] |= {"maxReplicas": 9, "targetCPUUtilizationPercentage": 70}
    reply = await api("PUT", f"{FIRST}/a", first)
    assert reply.status == 200, reply.raw
    second = (await api("GET", f"{SECOND}/a")).json
    cpu = {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 70}}
    assert second["spec"]["metrics"] == [*made["spec"]["metrics"], {"type": "Resource", "resource": cpu}]
    assert second["spec"]["behavior"] == made["spec"]["behavior"]
    assert second["spec"]["maxReplicas"] == 9
    assert "annotations" not in second["metadata"]


async def test_a_list_of_version_1_and_a_table_of_it_show_the_same_objects(api: Client) -> None:
    await api("POST", FIRST, autoscaler("v1", targetCPUUtilizationPercentage=50))
    (listed,) = (await api("GET", FIRST)).json["items"]
    assert listed["spec"]["targetCPUUtilizationPercentage"] == 50
    table = await api("GET", FIRST, accept="application/json;as=Table;g=meta.k8s.io;v=v1,application/json")
    assert table.json["rows"][0]["cells"][:3] == ["a", "Deployment/x", "cpu: <unknown>/50%"]


@pytest.mark.parametrize(
    "text",
    ["{", "5", '[{"type":5}]', '["x"]', '[{"type":"Resource","resource":{"name":7}}]', "[" * 5000, '{"ScaleUp":3}'],
)
async def test_an_annotation_of_a_wrong_form_is_dropped(text: str, api: Client) -> None:
    annotations = {f"{PREFIX}/{name}": text for name in ("metrics", "behavior", "current-metrics", "conditions")}
    reply = await api("POST", FIRST, autoscaler("v1", {**annotations, "kept": "yes"}))
    assert reply.status == 201, reply.raw
    second = (await api("GET", f"{SECOND}/a")).json
    assert second["metadata"]["annotations"] == {"kept": "yes"}
    assert [metric["resource"]["name"] for metric in second["spec"]["metrics"]] == ["cpu"]
    assert "behavior" not in second["spec"]


async def test_the_object_cannot_change_its_status_nor_the_status_its_spec(api: Client) -> None:
    await api("POST", FIRST, autoscaler("v1", targetCPUUtilizationPercentage=50))
    state = [{"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}]
    patch = {"metadata": {"annotations": {f"{PREFIX}/conditions": json.dumps(state)}}}
    merge = "application/merge-patch+json"
    await api("PATCH", f"{FIRST}/a", patch, content_type=merge)
    assert "conditions" not in (await api("GET", f"{SECOND}/a")).json["status"]
    behavior = {"metadata": {"annotations": {f"{PREFIX}/behavior": '{"ScaleUp":{"SelectPolicy":"Min"}}'}}}
    await api("PATCH", f"{FIRST}/a/status", behavior, content_type=merge)
    assert "behavior" not in (await api("GET", f"{SECOND}/a")).json["spec"]
    await api("PATCH", f"{FIRST}/a/status", patch, content_type=merge)
    assert (await api("GET", f"{SECOND}/a")).json["status"]["conditions"] == state


async def test_bounds_are_those_of_version_2(api: Client) -> None:
    reply = await api("POST", FIRST, autoscaler("v1", minReplicas=5, targetCPUUtilizationPercentage=0))
    assert reply.status == 422
    fields = [cause["field"] for cause in reply.json["details"]["causes"]]
    assert fields == ["spec.maxReplicas", "spec.metrics[0].resource.target.averageUtilization"]
