"""Counters of workloads exist from the first status on, so that a client can wait for zero."""

from __future__ import annotations

from tarmac.api.compute.workload import PlacementStatus, WorkloadDeploymentStatus, WorkloadStatus
from tarmac.api.declare import encode

COUNTERS = {"replicas", "currentReplicas", "desiredReplicas", "readyReplicas", "updatedReplicas"}


def test_nothing_counted_is_said_to_be_zero() -> None:
    for status in (WorkloadStatus(), WorkloadDeploymentStatus(), PlacementStatus(name="us")):
        encoded = encode(status)
        assert {name for name in COUNTERS if encoded[name] == 0} == COUNTERS
