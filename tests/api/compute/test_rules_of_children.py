"""Children of a Workload are validated too: users may write them, and read them back."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tests.api.compute.making import Row, World, admitted, causes, edited, identified, resource, workload


def deployment(edits: dict[str, Any] | None = None) -> JsonObject:
    """A valid one, with edits by path."""
    spec = workload()["spec"]
    made: JsonObject = {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "WorkloadDeployment",
        "metadata": {"name": "web-dfw", "namespace": "default"},
        "spec": {
            "workloadRef": {"name": "web", "uid": "1"},
            "placementName": "us",
            "cityCode": "DFW",
            "scaleSettings": {"minReplicas": 2, "maxReplicas": 4},
            "template": spec["template"],
        },
    }
    made["spec"]["scaleSettings"]["metrics"] = [{"resource": {"name": "cpu", "target": {"averageUtilization": 50}}}]
    return edited(made, edits or {})


def instance(edits: dict[str, Any] | None = None) -> JsonObject:
    """A valid one, with edits by path."""
    made: JsonObject = {
        "apiVersion": "compute.datumapis.com/v1alpha",
        "kind": "Instance",
        "metadata": {"name": "web-dfw-0", "namespace": "default"},
        "spec": {**workload()["spec"]["template"]["spec"], "controller": {"templateHash": "abc"}},
    }
    return edited(made, edits or {})


DEPLOYMENTS: list[Row] = [
    ("nothing wrong", {}, []),
    (
        "of no Workload",
        {"spec.workloadRef": {"name": "", "uid": ""}},
        ["Required spec.workloadRef.name", "Required spec.workloadRef.uid"],
    ),
    (
        "of no placement, in no city",
        {"spec.placementName": "", "spec.cityCode": ""},
        ["Required spec.placementName", "Required spec.cityCode"],
    ),
    ("fewer than none", {"spec.replicas": -1}, ["Invalid spec.replicas"]),
]


@pytest.mark.parametrize(("edits", "expected"), identified(DEPLOYMENTS))
def test_deployments(edits: dict[str, Any], expected: list[str]) -> None:
    assert causes(deployment(edits), kind="WorkloadDeployment", lookup=World()) == expected


@pytest.mark.parametrize(
    ("replicas", "warnings"),
    [
        (2, []),
        (4, []),
        (1, ["spec.replicas: 1 is less than minReplicas, so 2 will run"]),
        (5, ["spec.replicas: 5 is more than maxReplicas, so 4 will run"]),
    ],
)
def test_a_number_that_its_bounds_do_not_let_be_is_warned_about(replicas: int, warnings: list[str]) -> None:
    made = admitted(deployment({"spec.replicas": replicas}), "WorkloadDeployment")
    assert resource("WorkloadDeployment").strategy.warnings(made, None) == warnings


INSTANCES: list[Row] = [
    ("nothing wrong", {}, []),
    ("of nobody", {"spec.controller": None}, []),
    ("of no revision", {"spec.controller": {}}, ["Required spec.controller.templateHash"]),
    ("on no network", {"spec.networkInterfaces": []}, ["Required spec.networkInterfaces"]),
]


@pytest.mark.parametrize(("edits", "expected"), identified(INSTANCES))
def test_instances(edits: dict[str, Any], expected: list[str]) -> None:
    assert causes(instance(edits), kind="Instance", lookup=World()) == expected


def test_the_type_of_an_instance_may_be_retired_while_it_runs() -> None:
    made = instance({"spec.runtime.resources.instanceType": "gone"})
    assert causes(made, kind="Instance", lookup=World()) == []
