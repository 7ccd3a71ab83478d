"""The change that an answer names is sufficient for all instances, and minimal."""

from __future__ import annotations

import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tarmac.base.quantity import Quantity
from tarmac.decide.explain import EXPLAINERS
from tarmac.decide.snapshot.snapshot import DEPLOYMENTS
from tests.decide.explain.world import Scene, workload
from tests.decide.plans.test_manifest_plans import plan

cpus = st.integers(1, 32)


def _city(nodes: list[int]) -> Scene:
    scene = Scene()
    scene.place("LHR", nodes=0)
    for index, cpu in enumerate(nodes):
        scene.node(f"lhr-{index}", "lhr", str(cpu))
        scene.pod(f"other-{index}", cpu="500m", node=f"lhr-{index}")
    return scene


@given(nodes=st.lists(cpus, min_size=1, max_size=4), cpu=cpus, replicas=st.integers(1, 9))
def test_the_size_to_ask_for_fits_and_nothing_larger_does(nodes: list[int], cpu: int, replicas: int) -> None:
    scene = _city(nodes)
    refused = plan(scene, workload("LHR", cpu=str(cpu), replicas=replicas))["LHR"].refused
    if not refused:
        return
    asked = re.match(r"Ask for at most (\S+) CPUs?, or ", refused[0].change)
    if asked is None:
        assert plan(scene, workload("LHR", cpu="1m", replicas=replicas))["LHR"].refused, "no size fits"
        return
    assert not plan(scene, workload("LHR", cpu=asked[1], replicas=replicas))["LHR"].refused
    larger = f"{Quantity.parse(asked[1]).milli() + 1}m"
    assert plan(scene, workload("LHR", cpu=larger, replicas=replicas))["LHR"].refused


def test_those_that_run_keep_what_they_have_until_those_that_wait_are_ready() -> None:
    """Three of 20 processors run on nodes of 32; a rollout to 16 would wait forever, one to 12 does not."""
    scene = _city([33, 33, 33])
    deployment = scene.deploy(workload("LHR", cpu="20", replicas=5, policy="OrderedReady"))["LHR"]
    for ordinal in range(3):
        scene.instance(deployment, ordinal, f"lhr-{ordinal}")
    scene.instance(deployment, 3, reason="InsufficientCapacity", ready=False)
    found = EXPLAINERS[DEPLOYMENTS.resource](scene.world, f"default/{deployment.metadata.name}")
    assert found is not None
    assert found.change == "Ask for at most 12.5 CPUs, or make room for 2 more of 20 CPUs and 1Gi of memory at lhr."


def test_one_that_is_left_over_is_told_what_the_nearest_node_lacks() -> None:
    scene = _city([33, 30])
    refused = plan(scene, workload("LHR", cpu="20", replicas=3))["LHR"].refused
    assert refused[0].change == "Ask for at most 16.25 CPUs, or free 7.5 CPUs on lhr-0."


def test_a_rollout_that_would_wait_for_itself_is_refused_although_its_end_has_room() -> None:
    """Two of 20 run on nodes of 32, a third waits: three of 16 would fit, but no ready one may be removed for them."""
    scene = _city([33, 33])
    deployment = scene.deploy(workload("LHR", cpu="20", replicas=3, policy="OrderedReady"))["LHR"]
    for ordinal in (0, 1):
        scene.instance(deployment, ordinal, f"lhr-{ordinal}")
    scene.instance(deployment, 2, reason="InsufficientCapacity", ready=False)
    smaller = plan(scene, workload("LHR", cpu="16", replicas=3, policy="OrderedReady"))["LHR"]
    assert [each.reason for each in smaller.refused] == ["InsufficientCapacity"]
    assert smaller.refused[0].change == "Ask for at most 12.5 CPUs, or free 3.5 CPUs on lhr-0."
    assert not plan(scene, workload("LHR", cpu="12", replicas=3, policy="OrderedReady"))["LHR"].refused
    generous = workload("LHR", cpu="16", replicas=3, rollout={"maxUnavailable": 2})
    assert not plan(scene, generous)["LHR"].refused, "one ready instance may be removed"


def test_a_surge_needs_room_beside_those_that_run() -> None:
    scene = _city([3, 3])
    deployment = scene.deploy(workload("LHR", cpu="2", replicas=2))["LHR"]
    for ordinal in (0, 1):
        scene.instance(deployment, ordinal, f"lhr-{ordinal}")
    newer: dict[str, Any] = {"cpu": "2", "replicas": 2, "image": "example.com/app:2"}
    assert not plan(scene, workload("LHR", **newer))["LHR"].refused
    surging = workload("LHR", **newer, rollout={"maxSurge": 1, "maxUnavailable": 0})
    assert [each.instances for each in plan(scene, surging)["LHR"].refused] == [1]
