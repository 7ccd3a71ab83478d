"""Pods that make room for other pods, pods that a budget keeps on a draining node, and possible changes."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.explanations import Explanation, ExplanationLine
from tarmac.base.clock import rfc3339
from tarmac.decide.explain import EXPLAINERS
from tarmac.decide.snapshot.snapshot import BUDGETS, INSTANCES, NODES, PODS
from tests.decide.explain.world import NOW, Scene, condition_of, workload

LABELS = {"app": "web"}


def explain(scene: Scene, resource: str, key: str) -> Explanation:
    found = EXPLAINERS[resource](scene.world, key)
    assert found is not None
    return found


def line(scene: Scene, resource: str, key: str, rule: str) -> ExplanationLine | None:
    """Return the line of one rule."""
    return next((each for each in explain(scene, resource, key).verdicts if each.rule == rule), None)


def drained(ready: bool = True) -> Scene:
    """Return a scene with a pod on a cordoned node."""
    scene = Scene()
    scene.place("LHR", nodes=0)
    scene.node("lhr-0", "lhr", unschedulable=True)
    running(scene, "web", ready)
    return scene


def running(scene: Scene, name: str, ready: bool = True, **metadata: Any) -> None:
    container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
    own = {"name": name, "namespace": "default", "uid": name, "labels": LABELS, **metadata}
    states = [{"name": "main", "state": {"running": {}}}]
    status = {"phase": "Running", "conditions": [condition_of("Ready", ready, "")], "containerStatuses": states}
    spec = {"containers": [container], "nodeName": "lhr-0"}
    scene.put(PODS.resource, {"metadata": own, "spec": spec, "status": status})


def budget(scene: Scene, name: str = "b", expected: int = 3, desired: int = 2, healthy: int = 2, **spec: Any) -> None:
    status = {"expectedPods": expected, "desiredHealthy": desired, "currentHealthy": healthy, "observedGeneration": 1}
    scene.put(
        BUDGETS.resource,
        {
            "metadata": {"name": name, "namespace": "default", "generation": 1},
            "spec": {"selector": {"matchLabels": LABELS}, **(spec or {"minAvailable": 2})},
            "status": {**status, "disruptionsAllowed": max(0, healthy - desired)},
        },
    )


def test_a_budget_that_is_short_says_how_many_are_healthy_and_how_many_must_be() -> None:
    scene = drained()
    budget(scene)
    found = line(scene, PODS.resource, "default/web", "disruptionbudget")
    assert found is not None
    assert (found.answer, found.reason, found.node) == ("Wait", "EvictionWaits", "lhr-0")
    said = "The disruption budget b does not let it leave its cordoned node yet: 2 of 3 have to be healthy, and 2 are."
    assert found.message == said
    assert said in explain(scene, NODES.resource, "lhr-0").sentence


@pytest.mark.parametrize(
    ("spec", "change"),
    [
        ({"maxUnavailable": 0}, "Raise maxUnavailable of b."),
        ({"minAvailable": "100%"}, "Lower minAvailable of b."),
        ({"minAvailable": 3}, "Lower minAvailable of b, or run one more."),
    ],
)
def test_a_budget_that_never_lets_go_says_what_to_change(spec: dict[str, Any], change: str) -> None:
    scene = drained()
    budget(scene, desired=3, healthy=3, **spec)
    found = line(scene, PODS.resource, "default/web", "disruptionbudget")
    assert found is not None
    assert (found.answer, found.reason, found.change) == ("No", "EvictionRefused", change)


def test_two_budgets_over_one_pod_say_that_one_has_to_go() -> None:
    scene = drained()
    budget(scene, "a")
    budget(scene, "b")
    found = line(scene, PODS.resource, "default/web", "disruptionbudget")
    assert found is not None
    assert found.change == "Leave one of the budgets a, b."


def test_a_budget_is_not_spoken_of_when_it_keeps_nobody() -> None:
    scene = drained()
    budget(scene, healthy=3)
    assert line(scene, PODS.resource, "default/web", "disruptionbudget") is None, "the budget allows one"
    scene = drained(ready=False)
    budget(scene)
    assert line(scene, PODS.resource, "default/web", "disruptionbudget") is None, "budgets protect healthy pods"
    budget(scene, healthy=1)
    assert line(scene, PODS.resource, "default/web", "disruptionbudget") is not None, "unhealthy pods may be needed"
    scene = drained()
    budget(scene)
    scene.node("lhr-0", "lhr")
    assert line(scene, PODS.resource, "default/web", "disruptionbudget") is None, "the node is not drained"


def test_an_instance_that_is_kept_by_a_budget_says_so() -> None:
    scene = Scene()
    scene.place("LHR", nodes=0)
    scene.node("lhr-0", "lhr", unschedulable=True)
    deployment = scene.deploy(workload("LHR"))["LHR"]
    made = scene.instance(deployment, 0, "lhr-0")
    budget(scene, selector={"matchLabels": made.metadata.labels}, minAvailable=2)
    found = line(scene, INSTANCES.resource, f"default/{made.metadata.name}", "disruptionbudget")
    assert found is not None
    assert found.reason == "EvictionWaits"


def test_a_node_that_is_being_drained_names_who_is_kept_and_who_is_going() -> None:
    scene = drained()
    running(scene, "old", deletionTimestamp=rfc3339(NOW + 20))
    budget(scene)
    found = explain(scene, NODES.resource, "lhr-0")
    assert found.sentence.startswith("Node lhr-0 is not ready and cordoned, with 2 pods on it: ")
    assert sorted((each.reason, each.message.split()[0]) for each in found.verdicts) == [
        ("EvictionWaits", "default/web:"),
        ("Terminating", "default/old"),
    ]
    scene.node("lhr-0", "lhr")
    assert not explain(scene, NODES.resource, "lhr-0").verdicts


def test_a_pod_with_a_place_in_view_names_whom_it_waits_for_and_how_long() -> None:
    scene = Scene()
    scene.place("LHR", nodes=1, cpu="2")
    target = [{"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}]
    for name, namespace in (("a", "default"), ("b", "other")):
        running(scene, name, namespace=namespace, deletionTimestamp=rfc3339(NOW + 25))
        pod = PODS.get(scene.world, f"{namespace}/{name}")
        assert pod is not None
        scene.put(PODS.resource, {**pod, "status": {"phase": "Running", "conditions": target}})
    scene.pod("vital", cpu="2", priority=10)
    vital = PODS.get(scene.world, "default/vital")
    assert vital is not None
    scene.put(PODS.resource, {**vital, "status": {"nominatedNodeName": "lhr-0"}})
    found = line(scene, PODS.resource, "default/vital", "preemption")
    assert found is not None
    names = "a and 1 of other namespaces"
    said = f"Less important pods end on lhr-0 and it gets their room: {names}; their time is over in 25s."
    assert found.message == said
    assert found.answer == "Wait"
