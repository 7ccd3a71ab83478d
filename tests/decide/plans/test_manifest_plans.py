"""Plans: creations, replacements, deletions and refusals of a manifest in every city."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tarmac.api.compute.explanations import CityPlan, Ending, Plan
from tarmac.api.compute.names import GROUP
from tarmac.api.compute.workload import Workload
from tarmac.api.declare import decode
from tarmac.api.schema import JsonObject
from tarmac.api.status import BadRequest
from tarmac.cli.rendering.plantext import plan_text
from tarmac.decide.plans.workload import plan_workload
from tarmac.decide.snapshot.snapshot import (
    BUDGETS,
    CLAIMS,
    INSTANCES,
    MACHINE_IMAGES,
    NETWORKS,
    NODES,
    PODS,
    PRIORITY_CLASSES,
    RUNTIME_CLASSES,
    WORKLOADS,
)
from tests.decide.explain.world import Scene, machines, workload

Numbers = tuple[int, int, int, int]


def plan(scene: Scene, obj: JsonObject, *without: str) -> dict[str, CityPlan]:
    """Return the plan by city. A stored Workload keeps its uid, as in an update."""
    metadata = obj["metadata"]
    known = WORKLOADS.get(scene.world, f"default/{metadata['name']}")
    typed = decode(Workload, {**obj, "metadata": {**metadata, "uid": known.metadata.uid if known else ""}})
    return {city.city: city for city in plan_workload(scene.world, typed, without)}


def numbers(city: CityPlan) -> Numbers:
    """Return the counts of create, replace, delete and keep."""
    return city.create, city.replace, city.delete, city.keep


def running(scene: Scene, obj: JsonObject, per_city: int) -> None:
    """Deploy the Workload with this many ready instances in each city, on alternating nodes."""
    for city, deployment in scene.deploy(obj).items():
        for ordinal in range(per_city):
            scene.instance(deployment, ordinal, f"{city.lower()}-{ordinal % 2}")


def test_a_new_workload_is_made_in_each_of_its_cities() -> None:
    scene = Scene()
    scene.place("DFW")
    scene.place("LHR")
    found = plan(scene, workload("DFW", "LHR", replicas=3))
    assert {city: numbers(each) for city, each in found.items()} == {"DFW": (3, 0, 0, 0), "LHR": (3, 0, 0, 0)}
    assert not any(each.refused for each in found.values())


def test_an_edit_that_changes_nothing_does_nothing() -> None:
    scene = Scene()
    scene.place("DFW")
    obj = workload("DFW", replicas=2)
    running(scene, obj, 2)
    assert numbers(plan(scene, obj)["DFW"]) == (0, 0, 0, 2)


def test_scaling_adds_and_removes() -> None:
    scene = Scene()
    scene.place("DFW")
    running(scene, workload("DFW", replicas=2), 2)
    assert numbers(plan(scene, workload("DFW", replicas=5))["DFW"]) == (3, 0, 0, 2)
    assert numbers(plan(scene, workload("DFW", replicas=1))["DFW"]) == (0, 0, 1, 1)


def test_a_new_template_replaces_every_instance() -> None:
    scene = Scene()
    scene.place("DFW")
    running(scene, workload("DFW", replicas=2), 2)
    assert numbers(plan(scene, workload("DFW", replicas=3, image="example.com/app:2"))["DFW"]) == (1, 2, 0, 0)


def test_a_city_that_is_left_out_loses_its_instances() -> None:
    scene = Scene()
    scene.place("DFW")
    scene.place("LHR")
    running(scene, workload("DFW", "LHR", replicas=2), 2)
    found = plan(scene, workload("DFW", replicas=2))
    assert numbers(found["DFW"]) == (0, 0, 0, 2)
    assert numbers(found["LHR"]) == (0, 0, 2, 0)


def test_instances_without_room_are_refused_and_counted() -> None:
    scene = Scene()
    scene.place("DFW", nodes=2, cpu="2")
    (refused,) = plan(scene, workload("DFW", replicas=6, cpu="1"))["DFW"].refused
    assert (refused.reason, refused.instances) == ("InsufficientCapacity", 2)
    assert refused.message == "2 of 6 instances: 0/2 nodes at dfw: 2 Insufficient cpu."
    assert refused.change


def test_replaced_instances_make_room_first() -> None:
    scene = Scene()
    scene.place("DFW", nodes=2, cpu="1")
    running(scene, workload("DFW", replicas=2, cpu="1"), 2)
    assert not plan(scene, workload("DFW", replicas=2, cpu="1", image="example.com/app:2"))["DFW"].refused


def test_an_instance_that_waits_for_a_node_already_is_refused_too() -> None:
    scene = Scene()
    scene.place("DFW", nodes=1, cpu="1")
    obj = workload("DFW", replicas=2)
    deployment = scene.deploy(obj)["DFW"]
    scene.instance(deployment, 0, "dfw-0")
    scene.instance(deployment, 1, reason="Unschedulable", ready=False)
    found = plan(scene, obj)["DFW"]
    assert numbers(found) == (0, 0, 0, 2)
    assert [each.instances for each in found.refused] == [1]


def test_other_pods_count_against_quota_and_nodes() -> None:
    scene = Scene()
    scene.place("DFW", nodes=1, cpu="8")
    scene.pod("other", "2", "dfw-0")
    scene.quota(cpu="4")
    (refused,) = plan(scene, workload("DFW", replicas=3, cpu="1"))["DFW"].refused
    assert (refused.reason, refused.instances) == ("QuotaExhausted", 1)
    assert refused.change == "Raise cpu of ResourceQuota limits to 5, or scale something else down."


def test_instances_of_other_workloads_hold_their_quota() -> None:
    scene = Scene()
    scene.place("DFW", nodes=2, cpu="8")
    running(scene, workload("DFW", replicas=2, name="first"), 2)
    scene.quota(pods="3")
    assert [each.instances for each in plan(scene, workload("DFW", replicas=2))["DFW"].refused] == [1]


def test_a_city_without_a_location_is_refused_and_the_others_are_not() -> None:
    scene = Scene()
    scene.place("DFW")
    found = plan(scene, workload("DFW", "NRT"))
    assert not found["DFW"].refused
    assert [each.reason for each in found["NRT"].refused] == ["NoCandidateLocations"]


def test_a_placement_that_matches_no_place_is_refused_as_a_whole() -> None:
    scene = Scene()
    scene.place("DFW")
    found = plan(scene, workload(locationSelector={"matchLabels": {"topology.datum.net/region": "EU"}}))
    assert [each.reason for each in found[""].refused] == ["NoMatchingLocations"]


def test_of_several_locations_the_emptiest_is_taken() -> None:
    scene = Scene()
    scene.place("DFW", nodes=1, cpu="1", name="dfw-a")
    scene.place("DFW", nodes=1, cpu="8", name="dfw-b")
    assert not plan(scene, workload("DFW", replicas=4, cpu="2"))["DFW"].refused


def test_a_city_that_does_not_exist_cannot_be_lost() -> None:
    scene = Scene()
    scene.place("DFW")
    with pytest.raises(BadRequest, match="no Location is in XXX; there are some in DFW"):
        plan(scene, workload("DFW"), "DFW", "XXX")


def test_without_a_city_its_instances_wait_unless_they_may_move() -> None:
    scene = Scene()
    scene.place("DFW")
    scene.place("LHR")
    running(scene, workload("LHR", replicas=2), 2)
    stays = plan(scene, workload("LHR", replicas=2), "LHR")
    assert [(each.reason, each.instances) for each in stays["LHR"].refused] == [("CityLost", 2)]
    moves = plan(scene, workload("LHR", replicas=2, onCityLoss={"policy": "Move", "cities": ["DFW"]}), "LHR")
    assert not moves["LHR"].refused
    assert (moves["DFW"].create, moves["DFW"].moved, moves["DFW"].refused) == (2, 2, [])


def test_a_move_needs_room_too() -> None:
    scene = Scene()
    scene.place("DFW", nodes=1, cpu="1")
    scene.place("LHR")
    found = plan(scene, workload("LHR", replicas=3, onCityLoss={"policy": "Move", "cities": ["DFW"]}), "LHR")
    assert [each.instances for each in found["DFW"].refused] == [2]


def test_a_network_that_does_not_exist_and_a_pause_stop_everything() -> None:
    scene = Scene()
    scene.place("DFW")
    assert plan(scene, workload("DFW", paused=True))["DFW"].refused[0].reason == "Paused"
    scene.remove(NETWORKS.resource, "default/default")
    assert plan(scene, workload("DFW"))["DFW"].refused[0].reason == "NetworkNotFound"


def test_a_disk_keeps_its_ordinal_where_it_is() -> None:
    scene = Scene()
    scene.place("DFW", nodes=2, cpu="2")
    disk = {"template": {"spec": {"resources": {"requests": {"storage": "10Gi"}}}}}
    obj = workload("DFW", replicas=1)
    obj["spec"]["template"]["spec"]["volumes"] = [{"name": "data", "disk": disk}]
    (deployment,) = scene.deploy(obj).values()
    made = scene.instance(deployment, 0, "dfw-0")
    scene.claim(f"{made.metadata.name}-data", "dfw-0")
    scene.pod("neighbour", "2", "dfw-0")
    obj["spec"]["template"]["metadata"] = {"labels": {"app": "new"}}
    (refused,) = plan(scene, obj)["DFW"].refused
    assert "1 of 1 instances" in refused.message


def test_a_type_that_does_not_exist_is_refused() -> None:
    scene = Scene()
    scene.place("DFW")
    obj = workload("DFW")
    obj["spec"]["template"]["spec"]["runtime"]["resources"] = {"instanceType": "datumcloud/x9-huge"}
    assert plan(scene, obj)["DFW"].refused[0].reason == "InstanceTypeNotFound"


@given(st.data())
def test_every_wanted_instance_is_accounted_for(data: st.DataObject) -> None:
    """Created, replaced and kept instances add up to the wanted ones, and the plan reports all others."""
    scene = Scene()
    cities = ["DFW", "LHR", "SEA"]
    for city in cities:
        scene.place(city, nodes=2, cpu=str(data.draw(st.integers(1, 6))))
    before, after = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    running(scene, workload(*cities[:2], replicas=before), before)
    chosen = data.draw(st.lists(st.sampled_from(cities), min_size=1, unique=True))
    image = data.draw(st.sampled_from(["example.com/app:1", "example.com/app:2"]))
    more: dict[str, Any] = {"cpu": data.draw(st.sampled_from(["1", "3"]))}
    found = plan(scene, workload(*chosen, replicas=after, image=image, **more))
    for city, each in found.items():
        assert each.create + each.replace + each.keep == (after if city in chosen else 0)
        assert each.replace + each.delete + each.keep == (before if city in cities[:2] else 0)
        assert sum(refused.instances for refused in each.refused) <= each.create + each.replace


def important(scene: Scene, *cities: str, **more: Any) -> JsonObject:
    """Return a Workload of a class above the default priority."""
    policy = more.pop("preemptionPolicy", "PreemptLowerPriority")
    scene.put(PRIORITY_CLASSES.resource, {"metadata": {"name": "high"}, "value": 10, "preemptionPolicy": policy})
    obj = workload(*cities, **more)
    obj["spec"]["template"]["spec"]["priorityClassName"] = "high"
    return obj


def test_a_plan_names_who_would_end_for_more_important_instances() -> None:
    scene = Scene()
    scene.place("LHR", nodes=2, cpu="2")
    for number in range(4):
        scene.pod(f"p{number}", node=f"lhr-{number // 2}")
    found = plan(scene, important(scene, "LHR", replicas=3))["LHR"]
    assert (numbers(found), found.refused) == ((3, 0, 0, 0), [])
    assert all((len(each.pods), each.others) == (1, 0) for each in found.endings)
    assert len({name for each in found.endings for name in each.pods}) == 3
    assert "end 3 less important pods" in plan_text("default/web", Plan(accepted=True, cities=[found]))


def test_a_plan_counts_those_of_other_namespaces_and_the_budgets_that_would_be_broken() -> None:
    scene = Scene()
    scene.place("LHR", nodes=1, cpu="2")
    for name, namespace in (("mine", "default"), ("theirs", "other")):
        container = {"name": "main", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
        metadata = {"name": name, "namespace": namespace, "uid": name, "labels": {"app": "db"}}
        scene.put(PODS.resource, {"metadata": metadata, "spec": {"containers": [container], "nodeName": "lhr-0"}})
    spec = {"selector": {"matchLabels": {"app": "db"}}}
    status = {"disruptionsAllowed": 0}
    scene.put(BUDGETS.resource, {"metadata": {"name": "b", "namespace": "other"}, "spec": spec, "status": status})
    (ending,) = plan(scene, important(scene, "LHR", replicas=1, cpu="2"))["LHR"].endings
    assert ending == Ending("lhr-0", ["mine"], others=1, violations=1)
    shown = plan_text("default/web", Plan(accepted=True, cities=[CityPlan("LHR", 1, endings=[ending])]))
    assert "mine, 1 of other namespaces (against 1 times a disruption budget)" in shown


def test_nobody_would_end_for_a_class_that_waits_or_for_equals() -> None:
    scene = Scene()
    scene.place("LHR", nodes=1, cpu="2")
    scene.pod("other", cpu="2", node="lhr-0")
    polite = plan(scene, important(scene, "LHR", replicas=1, preemptionPolicy="Never"))["LHR"]
    assert (polite.endings, [each.reason for each in polite.refused]) == ([], ["InsufficientCapacity"])
    equal = plan(scene, workload("LHR", replicas=1))["LHR"]
    assert (equal.endings, [each.reason for each in equal.refused]) == ([], ["InsufficientCapacity"])


def test_a_machine_without_an_image_or_a_node_that_runs_machines_is_refused_before_anything_is_made() -> None:
    scene = Scene()
    scene.place("DFW")
    (refused,) = plan(scene, machines("DFW"))["DFW"].refused
    assert (refused.reason, refused.instances) == ("ImageUnavailable", 1)
    assert refused.change == "Set spec.source and spec.checksum of MachineImage tarmac-tiny."
    spec = {"size": "1Gi", "format": "raw", "source": {"file": "tiny.img"}, "checksum": "sha256:" + "0" * 64}
    scene.put(MACHINE_IMAGES.resource, {"metadata": {"name": "tarmac-tiny"}, "spec": spec})
    assert plan(scene, machines("DFW"))["DFW"].refused == []
    scene.put(RUNTIME_CLASSES.resource, {"metadata": {"name": "vm"}, "handler": "vm"})
    for name in ("dfw-0", "dfw-1"):
        node = NODES.get(scene.world, name)
        assert node is not None
        handlers = [{"name": "gvisor"}]
        scene.put(NODES.resource, {**node, "status": {**node["status"], "runtimeHandlers": handlers}})
    (refused,) = plan(scene, machines("DFW"))["DFW"].refused
    assert refused.reason == "RuntimeUnavailable"


def with_overhead(scene: Scene, memory: str) -> None:
    """Set the memory overhead of machines, and add the image that they need."""
    overhead = {"podFixed": {"memory": memory}}
    scene.put(RUNTIME_CLASSES.resource, {"metadata": {"name": "vm"}, "handler": "vm", "overhead": overhead})
    spec = {"size": "1Gi", "format": "raw", "source": {"file": "tiny.img"}, "checksum": "sha256:" + "0" * 64}
    scene.put(MACHINE_IMAGES.resource, {"metadata": {"name": "tarmac-tiny"}, "spec": spec})


def test_machines_that_would_be_stopped_or_started_are_counted_and_stay() -> None:
    scene = Scene()
    scene.place("DFW", nodes=1, cpu="1")
    with_overhead(scene, "0")
    stopped = machines("DFW")
    stopped["spec"]["template"]["spec"]["runtime"]["virtualMachine"]["running"] = False
    running(scene, machines("DFW"), 1)
    found = plan(scene, stopped)["DFW"]
    assert (numbers(found), found.stop, found.start, found.refused) == ((0, 0, 0, 1), 1, 0, [])
    assert plan_text("default/vm", Plan(accepted=True, cities=[found])).startswith(
        "Workload default/vm would run: stop 1."
    )
    [deployment] = scene.deploy(stopped).values()
    instance = scene.instance(deployment, 0, ready=False, reason="Stopped")
    scene.remove(PODS.resource, f"default/{instance.metadata.name}")
    assert plan(scene, stopped)["DFW"].refused == [], "a stopped machine needs no node"
    found = plan(scene, machines("DFW"))["DFW"]
    assert (numbers(found), found.stop, found.start, found.refused) == ((0, 0, 0, 1), 0, 1, [])
    scene.pod("full", cpu="1", node="dfw-0")
    assert plan(scene, stopped)["DFW"].refused == []
    (refused,) = plan(scene, machines("DFW"))["DFW"].refused
    assert refused.reason == "InsufficientCapacity", "a starting machine needs its room again"


def test_boot_disks_that_would_be_made_again_are_counted() -> None:
    scene = Scene()
    scene.place("DFW")
    with_overhead(scene, "0")
    running(scene, machines("DFW"), 1)
    [instance] = INSTANCES.all(scene.world)
    populated = {f"{GROUP}/populate-from-image": "tarmac/tiny", f"{GROUP}/populated-checksum": "sha256:" + "0" * 64}
    name = f"{instance.metadata.name}-boot"

    def made_from(**other: str) -> None:
        notes = populated | {f"{GROUP}/{key.replace('_', '-')}": value for key, value in other.items()}
        metadata = {"namespace": "default", "name": name, "annotations": notes}
        scene.put(CLAIMS.resource, {"metadata": metadata, "spec": {}})

    changed = machines("DFW")
    changed["spec"]["template"]["metadata"] = {"annotations": {"colour": "blue"}}
    made_from()
    found = plan(scene, changed)["DFW"]
    assert (found.replace, found.boot_disks) == (1, 0)
    for other in ({"populate_from_image": "acme/os"}, {"populated_checksum": "sha256:" + "1" * 64}):
        made_from(**other)
        found = plan(scene, changed)["DFW"]
        assert (found.replace, found.boot_disks) == (1, 1)
    assert plan(scene, machines("DFW"))["DFW"].boot_disks == 0, "kept instances keep their disks"
    changed["spec"]["template"]["spec"]["volumes"][0]["disk"]["template"]["spec"]["retain"] = True
    assert plan(scene, changed)["DFW"].boot_disks == 0


def test_a_machine_takes_the_overhead_of_its_class_from_nodes() -> None:
    scene = Scene()
    scene.place("DFW", nodes=1)
    with_overhead(scene, "192Mi")
    node = NODES.get(scene.world, "dfw-0")
    assert node is not None
    for memory, fits in (("1224Mi", True), ("1100Mi", False)):
        allocatable = {"cpu": "4", "memory": memory, "pods": "110"}
        scene.put(NODES.resource, {**node, "status": {**node["status"], "allocatable": allocatable}})
        refused = plan(scene, machines("DFW"))["DFW"].refused
        assert (not refused) is fits
    assert refused[0].reason == "InsufficientCapacity"
    assert refused[0].change == "Ask for at most 900Mi of memory, or free 124Mi of memory on dfw-0."
    two = machines("DFW")
    two["spec"]["placements"][0]["scaleSettings"]["minReplicas"] = 3
    (refusal,) = plan(scene, two)["DFW"].refused
    told = (
        "make room for 3 more of 1 CPU and 1224Mi of memory, of which 200Mi of memory is overhead of the runtime, "
        "at dfw."
    )
    assert refusal.change.endswith(told)


def test_a_machine_takes_the_overhead_of_its_class_from_quotas() -> None:
    scene = Scene()
    scene.place("DFW")
    with_overhead(scene, "192Mi")
    scene.quota(memory="1224Mi")
    assert plan(scene, machines("DFW"))["DFW"].refused == []
    scene.quota(memory="1223Mi")
    (refused,) = plan(scene, machines("DFW"))["DFW"].refused
    assert refused.reason == "QuotaExhausted"
    assert refused.change == "Raise memory of ResourceQuota limits to 1224Mi, or scale something else down."
    assert plan(scene, workload("DFW", replicas=1))["DFW"].refused == [], "a sandbox has no overhead"
