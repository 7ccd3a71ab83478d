"""CPU shares, CPU quota, memory and OOM score of a container, as the runtime receives them."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import Resources

GIB = 1 << 30


def pod(*containers: JsonObject, **spec: Any) -> AgentPod:
    return AgentPod(
        {"metadata": {"name": "w", "namespace": "n", "uid": "u"}, "spec": {"containers": [*containers], **spec}}
    )


def told(made: AgentPod) -> Resources:
    return Allocator(AllocationSettings(memory_capacity=10 * GIB)).allot(made).containers["c"].resources()


def resources(**amounts: JsonObject) -> JsonObject:
    return {"name": "c", "resources": amounts}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (resources(), Resources(100_000, 0, 2, 0, 1000)),
        (
            resources(requests={"cpu": "250m", "memory": "1Gi"}, limits={"memory": "2Gi"}),
            Resources(100_000, 0, 256, 2 * GIB, 900),
        ),
        (
            resources(requests={"cpu": "1", "memory": "1Gi"}, limits={"cpu": "1", "memory": "1Gi"}),
            Resources(100_000, 100_000, 1024, GIB, -997),
        ),
        (resources(limits={"cpu": "5m"}), Resources(100_000, 1000, 5, 0, 999)),
    ],
)
def test_requests_and_limits_as_the_kernel_hears_of_them(container: JsonObject, expected: Resources) -> None:
    assert told(pod(container)) == expected


def test_limits_of_the_pod_hold_for_containers_without_their_own() -> None:
    container = resources()
    whole = pod(container, resources={"limits": {"cpu": "2", "memory": "1Gi"}})
    found = told(whole)
    assert (found.cpu_quota, found.memory_limit) == (200_000, GIB)
