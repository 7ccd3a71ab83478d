"""Amounts and periods that the API accepts and no machine has: runtime and kernel receive the largest valid value."""

from __future__ import annotations

import math
from typing import Any

import pytest

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.model.pod import AgentPod
from tarmac.runtimes.cri._generated import cri_subset_pb2 as pb
from tarmac.runtimes.cri.encode import resources_message
from tests.agent.pods.machine import pod
from tests.fuzz.extremes import QUANTITIES

SIZES = ["1e1000", "9" * 1000, "99999Ei", "9223372036854775808", "1n", "0"]


@pytest.mark.parametrize("size", SIZES, ids=lambda text: text[:8])
def test_any_amount_can_be_said_to_the_runtime_and_the_kernel(size: str) -> None:
    assert size in QUANTITIES, "the tests of the API use these amounts too"
    amounts = {"cpu": size, "memory": size}
    made = _pod(container={"resources": {"limits": amounts, "requests": {"cpu": "1m", "memory": "1"}}})
    for capacity in (0, 1, 8 << 30):
        allotment = Allocator(AllocationSettings(capacity, pids=100)).allot(made)
        for container in allotment.containers.values():
            assert resources_message(container.resources()).SerializeToString()
        limits = allotment.limits
        assert limits.memory is not None
        assert limits.memory < 1 << 63
        assert limits.quota is not None
        assert limits.quota < 1 << 44


@pytest.mark.parametrize("seconds", [2**63 - 1, 2**31, 0])
def test_any_grace_period_can_be_said_to_the_runtime(seconds: int) -> None:
    for made in (
        _pod(terminationGracePeriodSeconds=seconds),
        _pod(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": seconds}),
    ):
        asked = pb.StopContainerRequest(container_id="a", timeout=math.ceil(float(made.grace)))
        assert asked.timeout * 10**9 < 1 << 63, "containerd counts in nanoseconds"


def _pod(**spec: Any) -> AgentPod:
    made = pod(**spec)
    made["metadata"]["uid"] = "u"
    return AgentPod(made)
