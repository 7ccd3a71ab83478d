"""Rules of resources that the containers of an instance share."""

from __future__ import annotations

from typing import Any

import pytest

from tests.api.compute.making import GONE, C, R, Row, World, causes, identified, workload

CUSTOM: dict[str, Any] = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "2", "memory": "2Gi"}}
GPU = "datumcloud.com/nvidia-tesla-a100"
WITH_GPU = {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "2", "memory": "2Gi", GPU: "1"}}


def shares(*containers: dict[str, Any]) -> dict[str, Any]:
    """Two containers' resources."""
    return {f"{C}[{index}].resources": resources for index, resources in enumerate(containers)}


RESOURCES: list[Row] = [
    (
        "C1 custom needs cpu and memory",
        {R: {"instanceType": "d1-custom"}},
        [f"Required {R}.requests[cpu]", f"Required {R}.requests[memory]"],
    ),
    (
        "C1 custom amounts above zero",
        {R: {"instanceType": "datumcloud/d1-custom", "requests": {"cpu": "0", "memory": "1Gi"}}},
        [f"Invalid {R}.requests[cpu]"],
    ),
    ("C1 custom, family spelling", {R: {**CUSTOM, "instanceType": "d1-custom"}}, []),
    ("C1 object spelling of a type", {f"{R}.instanceType": "datumcloud-d1-standard-2"}, []),
    (
        "C1 memory in thousandths",
        {R: {**CUSTOM, "requests": {"cpu": "1", "memory": "256m"}}},
        [f"Invalid {R}.requests[memory]"],
    ),
    ("C2 unknown resource", shares({"requests": {GPU: "1"}}), [f"NotSupported {C}[0].resources.requests[{GPU}]"]),
    ("C2 above the instance's", shares({"limits": {"cpu": "3"}}), [f"Invalid {C}[0].resources.limits[cpu]"]),
    (
        "C2 memory in thousandths",
        shares({"requests": {"memory": "256m"}}),
        [f"Invalid {C}[0].resources.requests[memory]"],
    ),
    (
        "C3 an only container takes all",
        {f"{C}[1]": GONE, **shares({"requests": {"cpu": "1"}})},
        [f"Invalid {C}[0].resources.requests[cpu]"],
    ),
    ("C3 all of one resource is enough", {f"{C}[1]": GONE, **shares({"requests": {"cpu": "2"}})}, []),
    (
        "C4 limits do not add up",
        shares({"limits": {"cpu": "1", "memory": "1Gi"}}, {"limits": {"cpu": "500m", "memory": "1Gi"}}),
        [f"Invalid {C}"],
    ),
    (
        "C4 a missing key counts as nothing",
        shares({"limits": {"cpu": "1"}}, {"limits": {"cpu": "1"}}),
        [f"Invalid {C}"],
    ),
    (
        "C4 limits add up",
        shares({"limits": {"cpu": "1", "memory": "1536Mi"}}, {"limits": {"cpu": "1", "memory": "512Mi"}}),
        [],
    ),
    ("C4 not every container has limits", shares({"limits": {"cpu": "1"}}), []),
    ("C5 nobody requests the device", {R: WITH_GPU}, [f"Invalid {R}.requests[{GPU}]"]),
    ("C5 a silent only container gets it", {f"{C}[1]": GONE, R: WITH_GPU}, []),
    ("C5 somebody requests it", {R: WITH_GPU, **shares({"requests": {GPU: "1"}})}, []),
    (
        "C5 a device is whole",
        {R: {**CUSTOM, "requests": {**CUSTOM["requests"], GPU: "500m"}}},
        [f"Invalid {R}.requests[{GPU}]"],
    ),
    (
        "request above its limit",
        shares({"requests": {"cpu": "2"}, "limits": {"cpu": "1"}}),
        [f"Invalid {C}[0].resources.requests[cpu]"],
    ),
    ("requests beyond the instance", shares({"requests": {"cpu": "2"}}, {"requests": {"cpu": "1"}}), [f"Invalid {C}"]),
]


@pytest.mark.parametrize(("edits", "expected"), identified(RESOURCES))
def test_resources(edits: dict[str, Any], expected: list[str]) -> None:
    assert causes(workload(edits), lookup=World()) == expected
