"""Limits of a pod's cgroup, as kubelets compute them."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import burstable_request, pod_limits
from tarmac.agent.cgroups.v2 import weight
from tarmac.agent.model.cgrouplimits import CgroupLimits, quota
from tarmac.decide.allocatable.weights import shares


def pod(*containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    listed = [{"name": f"c{index}", "resources": each} for index, each in enumerate(containers)]
    return {"metadata": {"uid": "u"}, "spec": {"containers": listed, **spec}}


def resources(cpu: str = "", memory: str = "", request_cpu: str = "") -> dict[str, Any]:
    limits = {name: value for name, value in (("cpu", cpu), ("memory", memory)) if value}
    requests = {**limits, **({"cpu": request_cpu} if request_cpu else {})}
    return {"limits": limits, "requests": requests}


def limits(value: dict[str, Any], enforce_cpu: bool = True, pids: int = -1) -> CgroupLimits:
    return pod_limits(value["spec"], AllocationSettings(pids=pids, enforce_cpu=enforce_cpu))


@pytest.mark.parametrize(
    ("milli", "expected"), [(0, 2), (1, 2), (100, 102), (1000, 1024), (2500, 2560), (10**9, 262144)]
)
def test_shares(milli: int, expected: int) -> None:
    assert shares(milli) == expected


@pytest.mark.parametrize(("milli", "expected"), [(0, -1), (1, 1000), (50, 5000), (1500, 150_000)])
def test_quota(milli: int, expected: int) -> None:
    assert quota(milli, 100_000) == expected


@pytest.mark.parametrize(("v1", "v2"), [(2, 1), (1024, 39), (262144, 10000), (10**9, 10000)])
def test_weight_on_version_2(v1: int, v2: int) -> None:
    assert weight(v1) == v2


def test_the_sum_of_its_containers() -> None:
    found = limits(pod(resources("500m", "64Mi"), resources("250m", "32Mi")))
    assert found == CgroupLimits(shares=768, quota=75_000, memory=96 << 20, pids=-1)


def test_one_container_without_a_limit_leaves_the_pod_without_it() -> None:
    found = limits(pod(resources("500m", "64Mi"), resources(cpu="250m")))
    assert (found.quota, found.memory) == (75_000, -1)


def test_the_hungriest_init_step_counts() -> None:
    first = {"name": "i", "resources": resources("2", "1Gi")}
    found = limits(pod(resources("500m", "64Mi"), initContainers=[first]))
    assert (found.quota, found.memory) == (200_000, 1 << 30)


def test_amounts_of_the_pod_as_a_whole_replace_the_sums() -> None:
    found = limits(pod({}, {}, resources=resources("1", "128Mi")))
    assert found == CgroupLimits(shares=1024, quota=100_000, memory=128 << 20, pids=-1)


def test_overhead_is_on_top() -> None:
    found = limits(pod(resources("1", "128Mi"), overhead={"cpu": "100m", "memory": "16Mi"}))
    assert (found.quota, found.memory) == (110_000, 144 << 20)


def test_a_pod_that_asks_for_nothing_weighs_nothing_and_is_not_limited() -> None:
    assert limits(pod({}), pids=100) == CgroupLimits(shares=2, quota=-1, memory=-1, pids=100)


def test_without_quotas_only_the_weight_is_left() -> None:
    assert limits(pod(resources("1", "128Mi")), enforce_cpu=False).quota == -1


def test_only_burstable_pods_add_to_the_weight_of_their_level() -> None:
    assert burstable_request(pod(resources("1", "1Gi"))["spec"]) == 0
    assert burstable_request(pod({})["spec"]) == 0
    assert burstable_request(pod(resources("1", "1Gi", request_cpu="300m"))["spec"]) == 300
