"""Plans and explanations cover classes and exclusive processors: refusals and changes that help."""

from __future__ import annotations

from typing import Any

import msgspec

from tarmac.api.compute.explanations import Explanation
from tarmac.api.schema import JsonObject
from tarmac.decide.explain import EXPLAINERS
from tarmac.decide.snapshot.snapshot import DEPLOYMENTS, INSTANCES, NODES, PODS, QUOTAS
from tests.decide.explain.world import Scene, workload
from tests.decide.plans.test_manifest_plans import numbers, plan

DEFAULT = "blockio.resources.alpha.kubernetes.io/default"


def classed(*cities: str, name: str = "slow", **more: Any) -> JsonObject:
    """Return a Workload with containers in a class."""
    made = workload(*cities, **more)
    made["spec"]["template"]["metadata"] = {"annotations": {DEFAULT: name}}
    return made


def planet(cpu: str = "16", own: str = "", **classes: int | None) -> Scene:
    """Return LHR with two nodes that offer these classes, and DFW with two that offer none."""
    scene = Scene()
    scene.place("LHR", cpu=cpu)
    scene.place("DFW", cpu=cpu)
    listed = [{"name": each} | ({} if most is None else {"capacity": most}) for each, most in classes.items()]
    for name in ("lhr-0", "lhr-1"):
        node = msgspec.json.decode(scene.world.get(NODES.resource, name) or b"")
        node["status"]["containerClassResources"] = [{"name": "blockio", "classes": listed}] if listed else []
        node["status"]["capacity"] = {"cpu": cpu} | ({"cpu exclusive": own} if own else {})
        scene.put(NODES.resource, node)
    return scene


def why(scene: Scene, resource: str, name: str) -> Explanation:
    found = EXPLAINERS[resource](scene.world, f"default/{name}")
    assert found is not None
    return found


def test_a_class_that_a_city_does_not_offer_is_refused_there_and_the_change_is_named() -> None:
    found = plan(planet(fast=None, normal=None), classed("LHR", "DFW"))
    assert numbers(found["LHR"]) == (2, 0, 0, 0)
    here, there = found["LHR"].refused[0], found["DFW"].refused[0]
    assert (here.reason, here.instances) == ("ClassUnavailable", 2)
    assert here.message == "2 of 2 instances: 0/2 nodes at lhr: 2 no class blockio/slow."
    assert here.change == "Ask for one of fast, normal, or offer blockio/slow on lhr-0."
    assert there.change == "Offer blockio/slow on dfw-0."
    assert not plan(planet(slow=None), classed("LHR"))["LHR"].refused


def test_more_instances_than_places_are_refused_with_how_many_to_free() -> None:
    scene = planet(slow=2)
    assert not plan(scene, classed("LHR", replicas=4))["LHR"].refused
    refused = plan(scene, classed("LHR", replicas=7))["LHR"].refused[0]
    assert (refused.reason, refused.instances) == ("ClassExhausted", 3)
    assert refused.change == "Free 3 places of class blockio/slow at lhr."
    one = plan(scene, classed("LHR", replicas=5))["LHR"].refused[0]
    assert one.change == "Free 1 place of class blockio/slow on lhr-0."


def test_a_class_quota_is_counted_by_plans_and_explanations() -> None:
    scene = planet(slow=None, fast=None)
    listed = [{"name": "blockio", "classes": [{"name": "slow", "capacity": 2}]}]
    spec = {"containerClassResources": listed}
    scene.put(QUOTAS.resource, {"metadata": {"name": "limits", "namespace": "default"}, "spec": spec})
    refused = plan(scene, classed("LHR", replicas=5))["LHR"].refused[0]
    assert (refused.reason, refused.instances) == ("QuotaExhausted", 3)
    assert refused.change == "Raise class blockio/slow of ResourceQuota limits to 5, or scale something else down."
    forbidden = plan(scene, classed("LHR", name="fast"))["LHR"].refused[0]
    assert forbidden.message == (
        "2 of 2 instances: quota limits does not allow class blockio/fast in LHR; allowed: slow"
    )
    assert forbidden.change == "Allow class blockio/fast in ResourceQuota limits, or ask for another class."
    deployment = scene.deploy(classed("LHR", name="fast", replicas=1))["LHR"]
    scene.instance(deployment, 0, reason="QuotaExhausted", ready=False, gates=("Quota",))
    told = why(scene, INSTANCES.resource, f"{deployment.metadata.name}-0")
    assert "does not allow class blockio/fast" in told.sentence
    assert "ResourceQuota limits" in why(scene, DEPLOYMENTS.resource, deployment.metadata.name).change


def test_whole_processors_are_refused_where_none_are_left_to_give_away() -> None:
    scene = planet(own="3")
    refused = plan(scene, workload("LHR", cpu="2", replicas=5))["LHR"].refused[0]
    assert refused.message == "3 of 5 instances: 0/2 nodes at lhr: 2 Insufficient cpu exclusive."
    assert refused.change.startswith("Ask for at most 1 CPU, or ")
    assert not plan(scene, workload("LHR", cpu="1", replicas=5))["LHR"].refused
    assert not plan(scene, workload("LHR", cpu="2", replicas=2))["LHR"].refused
    assert not plan(scene, workload("DFW", cpu="2", replicas=5))["DFW"].refused, "all processors are shared there"


def _running(scene: Scene, in_effect: dict[str, str], cpus: str = "") -> None:
    container = {
        "name": "main",
        "image": "app",
        "resources": {"requests": {"cpu": "500m"}, "classes": {"blockio": "slow"}},
    }
    status = {
        "phase": "Running",
        "conditions": [
            {"type": "PodReadyToStartContainers", "status": "True"},
            {"type": "Ready", "status": "True"},
        ],
        "containerStatuses": [{"name": "main", "state": {"running": {}}, "resources": {"classes": in_effect}}],
    }
    annotations = {"node.tarmac/cpus": cpus} if cpus else {}
    metadata = {"name": "p", "namespace": "default", "uid": "p", "annotations": annotations}
    scene.put(
        PODS.resource,
        {"metadata": metadata, "spec": {"containers": [container], "nodeName": "lhr-0"}, "status": status},
    )


def given(scene: Scene) -> list[tuple[str, str, str, str]]:
    return [
        (line.rule, line.answer, line.reason, line.message)
        for line in why(scene, PODS.resource, "p").verdicts
        if line.rule in ("classes", "processors")
    ]


def test_a_pod_that_runs_tells_its_classes_and_its_processors() -> None:
    scene = planet(own="3", slow=None)
    _running(scene, {"blockio": "slow"}, '{"main":"2-3"}')
    assert given(scene) == [
        ("classes", "Yes", "Running", "container main is in class blockio/slow."),
        ("processors", "Yes", "Running", "container main has CPUs 2-3 to itself."),
    ]
    _running(scene, {"blockio": "slow"})
    assert given(scene)[1][3] == "container main shares CPUs, weight 512."


def test_a_class_that_is_not_in_effect_is_a_no() -> None:
    scene = planet(slow=None)
    _running(scene, {"blockio": ""})
    message = "container main asked for class blockio/slow and is in no class of blockio."
    assert given(scene) == [("classes", "No", "ClassUnavailable", message)]


def test_a_pod_that_its_node_refused_for_a_class_says_so() -> None:
    scene = planet(slow=None)
    _running(scene, {})
    pod = msgspec.json.decode(scene.world.get(PODS.resource, "default/p") or b"")
    said = "Pod was rejected: class blockio/slow is not offered on lhr-0; it offers fast"
    pod["status"] = {"phase": "Failed", "reason": "ClassUnavailable", "message": said}
    scene.put(PODS.resource, pod)
    assert ("classes", "No", "ClassUnavailable", f"{said}.") in given(scene)
