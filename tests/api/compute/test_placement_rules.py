"""Rules of placements, scaling and rollouts."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.compute.making import GONE, P, Row, S, World, causes, identified, workload

CPU_METRIC = {"resource": {"name": "cpu", "target": {"averageUtilization": 50}}}
EXTERNAL = {"external": {"metric": {"name": "m"}, "target": {"averageValue": "5"}}}


def scaled(**settings: Any) -> dict[str, Any]:
    return {S: {"minReplicas": 1, "maxReplicas": 3, "metrics": [CPU_METRIC], **settings}}


PLACEMENTS: list[Row] = [
    ("F1 none", {"spec.placements": []}, ["Required spec.placements"]),
    ("F2 no name", {f"{P}.name": ""}, [f"Required {P}.name"]),
    ("F2 bad name", {f"{P}.name": "U S"}, [f"Invalid {P}.name"]),
    (
        "F2 twice",
        {"spec.placements[1]": {"name": "us", "cityCodes": ["SEA"], "scaleSettings": {"minReplicas": 1}}},
        ["Duplicate spec.placements[1].name"],
    ),
    ("F3 no place", {f"{P}.cityCodes": []}, [f"Required {P}.cityCodes"]),
    ("F3 empty selector", {f"{P}.cityCodes": GONE, f"{P}.locationSelector": {}}, [f"Required {P}.locationSelector"]),
    ("F4 unknown city", {f"{P}.cityCodes": ["DFW", "LHR"]}, [f"NotSupported {P}.cityCodes[1]"]),
    ("F4 no IATA code", {f"{P}.cityCodes": ["Dallas"]}, [f"Invalid {P}.cityCodes[0]"]),
    ("F4 city twice, in any case", {f"{P}.cityCodes": ["DFW", "dfw"]}, [f"Duplicate {P}.cityCodes[1]"]),
    ("two ways to choose", {f"{P}.locations": [{"name": "dfw"}]}, [f"Forbidden {P}.locations"]),
    ("scope", {f"{P}.scope": "region"}, [f"NotSupported {P}.scope"]),
    (
        "CEL with an unknown name",
        {f"{P}.cityCodes": GONE, f"{P}.selector": {"constraint": "zone == 'a'"}},
        [f"Invalid {P}.selector.constraint"],
    ),
    (
        "CEL that is no condition",
        {f"{P}.cityCodes": GONE, f"{P}.selector": {"constraint": "region"}},
        [f"Invalid {P}.selector.constraint"],
    ),
    (
        "CEL that does not parse",
        {f"{P}.cityCodes": GONE, f"{P}.selector": {"constraint": "region in ["}},
        [f"Invalid {P}.selector.constraint"],
    ),
    (
        "CEL that is too long",
        {f"{P}.cityCodes": GONE, f"{P}.selector": {"constraint": "true" + " " * 4096}},
        [f"TooLong {P}.selector.constraint"],
    ),
    ("CEL", {f"{P}.cityCodes": GONE, f"{P}.selector": {"constraint": "region in ['US'] && topology['x'] != 'y'"}}, []),
    (
        "unknown location",
        {f"{P}.cityCodes": GONE, f"{P}.locations": [{"name": "lhr"}]},
        [f"NotFound {P}.locations[0].name"],
    ),
    (
        "location twice",
        {f"{P}.cityCodes": GONE, f"{P}.locations": [{"name": "dfw"}, {"name": "dfw"}]},
        [f"Duplicate {P}.locations[1].name"],
    ),
    (
        "a selector may match nothing",
        {f"{P}.cityCodes": GONE, f"{P}.locationSelector": {"matchLabels": {"a": "b"}}},
        [],
    ),
    (
        "city loss",
        {f"{P}.onCityLoss": {"policy": "Panic", "cities": ["XYZ"], "after": "5"}},
        [
            f"NotSupported {P}.onCityLoss.policy",
            f"NotSupported {P}.onCityLoss.cities[0]",
            f"Invalid {P}.onCityLoss.after",
        ],
    ),
    ("a move to nowhere", {f"{P}.onCityLoss": {"policy": "Move"}}, [f"Required {P}.onCityLoss.cities"]),
    ("no scale settings", {S: GONE}, [f"Required {S}"]),
    ("F5 no minimum", {S: {}}, [f"Required {S}.minReplicas"]),
    ("F5 zero", {f"{S}.minReplicas": 0}, [f"Invalid {S}.minReplicas"]),
    ("F5 too many", {f"{S}.minReplicas": 1001}, [f"Invalid {S}.minReplicas"]),
    ("F6 no metrics", {f"{S}.maxReplicas": 3}, [f"Required {S}.metrics"]),
    ("F6 metrics without a maximum", {f"{S}.metrics": [CPU_METRIC]}, [f"Required {S}.maxReplicas"]),
    ("maximum below minimum", scaled(minReplicas=5), [f"Invalid {S}.maxReplicas"]),
    ("maximum too large", scaled(maxReplicas=1001), [f"Invalid {S}.maxReplicas"]),
    ("F7 no source", scaled(metrics=[{}]), [f"Required {S}.metrics[0].resource"]),
    ("F7 two sources", scaled(metrics=[{**CPU_METRIC, **EXTERNAL}]), [f"Forbidden {S}.metrics[0].external"]),
    (
        "F8 unknown resource",
        scaled(metrics=[{"resource": {"name": "disk", "target": {"value": 1}}}]),
        [f"NotSupported {S}.metrics[0].resource.name"],
    ),
    ("F8 memory", scaled(metrics=[{"resource": {"name": "memory", "target": {"averageValue": "1Gi"}}}]), []),
    ("F9 no target", scaled(metrics=[{"resource": {"name": "cpu"}}]), [f"Required {S}.metrics[0].resource.target"]),
    (
        "F9 two targets",
        scaled(metrics=[{"resource": {"name": "cpu", "target": {"value": "1", "averageUtilization": 5}}}]),
        [f"Forbidden {S}.metrics[0].resource.target.averageUtilization"],
    ),
    (
        "F9 type does not match",
        scaled(metrics=[{"resource": {"name": "cpu", "target": {"type": "Value", "averageValue": "1"}}}]),
        [f"Invalid {S}.metrics[0].resource.target.type"],
    ),
    (
        "F10 zero",
        scaled(metrics=[{"resource": {"name": "cpu", "target": {"value": "0"}}}]),
        [f"Invalid {S}.metrics[0].resource.target.value"],
    ),
    (
        "F10 utilization below one",
        scaled(metrics=[{"resource": {"name": "cpu", "target": {"averageUtilization": 0}}}]),
        [f"Invalid {S}.metrics[0].resource.target.averageUtilization"],
    ),
    (
        "external metrics have no utilization",
        scaled(metrics=[{"external": {"metric": {"name": "m"}, "target": {"averageUtilization": 5}}}]),
        [f"Forbidden {S}.metrics[0].external.target.averageUtilization"],
    ),
    (
        "unknown expression",
        scaled(
            metrics=[
                {
                    "external": {
                        "metric": {"name": "m", "selector": {"matchLabels": {"c": "{{ city }}"}}},
                        "target": {"value": 1},
                    }
                }
            ]
        ),
        [f"Invalid {S}.metrics[0].external.metric.selector.matchLabels[c]"],
    ),
    ("policy", {f"{S}.instanceManagementPolicy": "Random"}, [f"NotSupported {S}.instanceManagementPolicy"]),
    ("Parallel", {f"{S}.instanceManagementPolicy": "Parallel"}, []),
    (
        "behavior",
        scaled(
            behavior={
                "scaleDown": {
                    "stabilizationWindowSeconds": 3601,
                    "policies": [{"type": "Pods", "value": 0, "periodSeconds": 0}],
                }
            }
        ),
        [
            f"Invalid {S}.behavior.scaleDown.stabilizationWindowSeconds",
            f"Invalid {S}.behavior.scaleDown.policies[0].value",
            f"Invalid {S}.behavior.scaleDown.policies[0].periodSeconds",
        ],
    ),
    ("rollout needs room", {"spec.rollout": {"maxUnavailable": 0}}, ["Invalid spec.rollout.maxUnavailable"]),
    (
        "rollout in percent",
        {"spec.rollout": {"maxUnavailable": "25%", "maxSurge": "x"}},
        ["Invalid spec.rollout.maxSurge"],
    ),
]


@pytest.mark.parametrize(("edits", "expected"), identified(PLACEMENTS))
def test_placements(edits: dict[str, Any], expected: list[str]) -> None:
    assert causes(workload(edits), lookup=World()) == expected
