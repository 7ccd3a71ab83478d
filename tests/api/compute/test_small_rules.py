"""Rules of a Workload that need one row each: missing, too long, of a wrong type, or duplicate values."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.compute.making import C, N, P, R, Row, S, T, World, causes, identified, workload

SANDBOX = f"{T}.runtime.sandbox"
LOSS = f"{P}.onCityLoss"
METRIC = f"{S}.metrics[0]"
ROLLOUT = "spec.rollout"
PROFILE = f"{C}[0].securityContext.seccompProfile"


def scaled_by(external: dict[str, Any]) -> dict[str, Any]:
    return {f"{S}.maxReplicas": 3, f"{S}.metrics": [{"external": external}]}


def seen_as(source: dict[str, Any]) -> dict[str, Any]:
    return {f"{T}.volumes[1]": {"name": "facts", **source}, **attached(1, "facts")}


def attached(position: int, name: str) -> dict[str, Any]:
    return {f"{C}[0].volumeAttachments[{position}]": {"name": name, "mountPath": f"/{name}"}}


TEMPLATE: list[Row] = [
    ("a priority class that is no name", {f"{T}.priorityClassName": "No_"}, [f"Invalid {T}.priorityClassName"]),
    (
        "a seccomp profile of no kind",
        {PROFILE: {"type": "Loose"}},
        [f"NotSupported {PROFILE}.type"],
    ),
    ("a profile that is not named", {PROFILE: {"type": "Localhost"}}, [f"Required {PROFILE}.localhostProfile"]),
    (
        "a profile named where none is wanted",
        {PROFILE: {"type": "RuntimeDefault", "localhostProfile": "x"}},
        [f"Invalid {PROFILE}.localhostProfile"],
    ),
    (
        "kernel settings without a name, and twice",
        {
            f"{SANDBOX}.sysctls": [
                {"name": "", "value": "1"},
                {"name": "a.b", "value": "1"},
                {"name": "a.b", "value": "2"},
            ]
        },
        [f"Required {SANDBOX}.sysctls[0].name", f"Duplicate {SANDBOX}.sysctls[2].name"],
    ),
    (
        "a variable from two places",
        {
            f"{C}[0].env": [
                {
                    "name": "A",
                    "valueFrom": {
                        "fieldRef": {"fieldPath": "metadata.name"},
                        "secretKeyRef": {"name": "s", "key": "k"},
                    },
                }
            ]
        },
        [f"Invalid {C}[0].env[0].valueFrom"],
    ),
    ("a port without a number", {f"{C}[0].ports": [{"name": "http"}]}, [f"Required {C}[0].ports[0].port"]),
    (
        "an attachment of nothing",
        {f"{C}[0].volumeAttachments[1]": {"name": "", "mountPath": "/x"}},
        [f"Required {C}[0].volumeAttachments[1].name"],
    ),
    (
        "a device that nobody makes",
        {f"{R}": {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "1", "memory": "1Gi", "gpu": "1"}}},
        [f"NotSupported {R}.requests[gpu]", f"Invalid {R}.requests[gpu]"],
    ),
]

INTERFACES: list[Row] = [
    ("a network of no namespace", {f"{N}[0].network.namespace": "No_"}, [f"Invalid {N}[0].network.namespace"]),
    ("a name that no kernel takes", {f"{N}[0].name": "a" * 16}, [f"TooLong {N}[0].name"]),
    ("an address of no class", {f"{N}[0].addresses": [{}]}, [f"Required {N}[0].addresses[0].class"]),
]

PLACEMENTS: list[Row] = [
    (
        "a Location without a name",
        {f"{P}.cityCodes": [], f"{P}.locations": [{"name": ""}]},
        [f"Required {P}.locations[0].name"],
    ),
    (
        "a loss that is answered before it happens",
        {LOSS: {"policy": "Move", "cities": ["SEA"], "after": "-1s"}},
        [f"Invalid {LOSS}.after"],
    ),
    (
        "more than all may be unavailable",
        {ROLLOUT: {"maxUnavailable": "101%"}},
        [f"Invalid {ROLLOUT}.maxUnavailable"],
    ),
    (
        "a deadline before an instance counts as ready",
        {ROLLOUT: {"minReadySeconds": 60, "progressDeadlineSeconds": 60}},
        [f"Invalid {ROLLOUT}.progressDeadlineSeconds"],
    ),
]

SCALING: list[Row] = [
    (
        "a metric without a name",
        scaled_by({"metric": {}, "target": {"averageValue": "1"}}),
        [f"Required {METRIC}.external.metric.name"],
    ),
    (
        "a selector that selects by nothing",
        scaled_by(
            {
                "metric": {"name": "m", "selector": {"matchExpressions": [{"key": "a", "operator": "In"}]}},
                "target": {"averageValue": "1"},
            }
        ),
        [f"Required {METRIC}.external.metric.selector.matchExpressions[0].values"],
    ),
    (
        "a target of no kind",
        scaled_by({"metric": {"name": "m"}, "target": {"type": "Most", "averageValue": "1"}}),
        [f"NotSupported {METRIC}.external.target.type"],
    ),
    (
        "a choice among policies that is none",
        {
            **scaled_by({"metric": {"name": "m"}, "target": {"averageValue": "1"}}),
            f"{S}.behavior": {"scaleUp": {"selectPolicy": "Any", "policies": []}},
        },
        [f"NotSupported {S}.behavior.scaleUp.selectPolicy"],
    ),
]

VOLUMES: list[Row] = [
    (
        "a file about nothing",
        seen_as({"downwardAPI": {"items": [{"path": "x", "fieldRef": {}}]}}),
        [f"Required {T}.volumes[1].downwardAPI.items[0].fieldRef.fieldPath"],
    ),
    (
        "files that everybody may do anything with, and more",
        seen_as(
            {"downwardAPI": {"defaultMode": 512, "items": [{"path": "x", "fieldRef": {"fieldPath": "metadata.name"}}]}}
        ),
        [f"Invalid {T}.volumes[1].downwardAPI.defaultMode"],
    ),
    (
        "memory of less than nothing",
        seen_as({"memory": {"sizeLimit": "-1"}}),
        [f"Invalid {T}.volumes[1].memory.sizeLimit"],
    ),
]


@pytest.mark.parametrize(("edits", "expected"), identified([*TEMPLATE, *INTERFACES, *PLACEMENTS, *SCALING, *VOLUMES]))
def test_small_rules(edits: dict[str, Any], expected: list[str]) -> None:
    assert causes(workload(edits), lookup=World()) == expected
