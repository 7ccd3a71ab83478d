"""Workloads of one file are planned in order: each sees the effects of those before it."""

from __future__ import annotations

from typing import Any

from tarmac.api.catalog import build_catalog
from tarmac.api.compute.explanations import CityPlan
from tarmac.decide.plans.batch import carried_out, read_workloads
from tarmac.decide.plans.workload import plan_workload
from tarmac.decide.snapshot.snapshot import PODS, PRIORITY_CLASSES
from tests.decide.explain.world import Scene, workload

CATALOG = build_catalog()


def plans(scene: Scene, *manifests: dict[str, Any]) -> list[CityPlan]:
    """Return the plan of each in LHR, after those before it."""
    world = scene.world
    read = read_workloads(world, manifests, CATALOG, "default")
    return [plan_workload(carried_out(world, read[:number]), each)[0] for number, each in enumerate(read)]


def refused(found: list[CityPlan]) -> list[int]:
    return [sum(each.instances for each in plan.refused) for plan in found]


def test_the_second_gets_what_the_first_leaves_on_nodes() -> None:
    scene = Scene()
    scene.place("LHR", nodes=2, cpu="2")
    first, second = workload("LHR", replicas=3, name="first"), workload("LHR", replicas=3, name="second")
    assert refused(plans(scene, first)) == refused(plans(scene, second)) == [0]
    assert refused(plans(scene, first, second)) == [0, 2]
    assert refused(plans(scene, second, first)) == [0, 2]


def test_instances_that_the_first_workload_removes_make_room_for_the_second() -> None:
    scene = Scene()
    scene.place("LHR", nodes=1, cpu="4")
    (deployment,) = scene.deploy(workload("LHR", replicas=4, name="first")).values()
    for ordinal in range(4):
        scene.instance(deployment, ordinal, "lhr-0")
    second = workload("LHR", replicas=3, name="second")
    assert refused(plans(scene, second)) == [3]
    assert refused(plans(scene, workload("LHR", replicas=1, name="first"), second)) == [0, 0]


def test_whom_the_first_would_end_makes_no_room_twice() -> None:
    scene = Scene()
    scene.place("LHR", nodes=1, cpu="2")
    scene.put(PRIORITY_CLASSES.resource, {"metadata": {"name": "high"}, "value": 100})
    scene.pod("a", node="lhr-0")
    scene.pod("b", node="lhr-0")
    manifests = [workload("LHR", replicas=count, name=f"w{count}") for count in (1, 2)]
    for each in manifests:
        each["spec"]["template"]["spec"]["priorityClassName"] = "high"
    first, second = plans(scene, *manifests)
    ended = [name for plan in (first, second) for ending in plan.endings for name in ending.pods]
    assert sorted(ended) == ["a", "b"]
    assert refused([first, second]) == [0, 1]
    assert PODS.get(scene.world, "default/a") is not None, "planning created an object"
