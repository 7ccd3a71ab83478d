"""Every pod to schedule gets a node with room, or a reason; and a node as soon as there is room."""

from __future__ import annotations

import pytest

from tarmac.client.targets.untyped import EVENTS, VOLUME_CLAIMS
from tarmac.decide.scheduling import Pod, Scheduler
from tarmac.decide.verdict import Verdict
from tarmac.sim.nodes.settings import NodeShape, SimLocation
from tests.controllers.cities import Cities, condition, play, pod

NAMES = "scheduler,node"
SMALL = NodeShape(cpu=2, memory="4Gi", pods=3)


def test_a_pod_gets_a_node_of_its_location() -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("a", place="lhr"))
        await cities.wait(1)
        assert await cities.nodes_of("a") == ["lhr-0"]
        events = (await cities.user.resource(EVENTS).list("default")).items
        assert [event["reason"] for event in events if event["involvedObject"]["name"] == "a"] == ["Scheduled"]

    play(NAMES, story)


def test_pods_are_spread_and_never_put_where_there_is_no_room() -> None:
    async def story(cities: Cities) -> None:
        names = [f"p{number}" for number in range(7)]
        for name in names:
            await cities.pods.create(pod(name, place="dfw"))
        await cities.wait(1)
        placed = await cities.nodes_of(*names)
        assert sorted(placed) == ["", "dfw-0", "dfw-0", "dfw-1", "dfw-1", "dfw-2", "dfw-2"]

    play(NAMES, story, shape=SMALL)


def test_a_pod_that_fits_nowhere_says_why_and_is_placed_when_room_appears() -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("first", cpu="2", place="lhr"))
        await cities.wait(1)
        await cities.pods.create(pod("second", cpu="2", place="lhr"))
        await cities.wait(1)
        said = condition(await cities.pods.get("second", "default"), "PodScheduled")
        assert (said["status"], said["reason"]) == ("False", "Unschedulable")
        assert said["message"].startswith("0/1 nodes at lhr: 1 ")
        await cities.pods.delete("first", "default")
        await cities.wait(15)
        assert await cities.nodes_of("second") == ["lhr-0"]
        assert condition(await cities.pods.get("second", "default"), "PodScheduled")["status"] == "True"

    play(NAMES, story, shape=SMALL)


def test_a_reason_that_stays_is_written_once() -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("huge", cpu="64"))
        await cities.wait(2)
        before = await cities.pods.get("huge", "default")
        await cities.wait(600)
        after = await cities.pods.get("huge", "default")
        assert before["metadata"]["resourceVersion"] == after["metadata"]["resourceVersion"]

    play(NAMES, story)


def test_the_more_important_pod_goes_first() -> None:
    async def story(cities: Cities) -> None:
        await cities.nodes.patch("lhr-0", {"spec": {"unschedulable": True}})
        await cities.wait(1)
        await cities.pods.create(pod("ordinary", cpu="2", place="lhr"))
        await cities.pods.create(pod("vital", cpu="2", place="lhr", priorityClassName="system-node-critical"))
        await cities.wait(20)
        await cities.nodes.patch("lhr-0", {"spec": {"unschedulable": None}})
        await cities.wait(15)
        assert await cities.nodes_of("vital", "ordinary") == ["lhr-0", ""]

    play(NAMES, story, shape=SMALL)


def test_pods_of_other_schedulers_and_gated_ones_are_left_alone() -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("foreign", schedulerName="other"))
        await cities.pods.create(pod("gated", schedulingGates=[{"name": "example.com/wait"}]))
        await cities.pods.create(pod("default", schedulerName="default-scheduler"))
        await cities.wait(2)
        placed = await cities.nodes_of("foreign", "gated", "default")
        assert [bool(node) for node in placed] == [False, False, True]
        await cities.pods.patch("gated", {"spec": {"schedulingGates": None}}, "default")
        await cities.wait(1)
        assert (await cities.nodes_of("gated"))[0]

    play(NAMES, story)


def test_the_node_of_a_new_disk_is_written_before_the_pod_goes_there() -> None:
    async def story(cities: Cities) -> None:
        volume = {"name": "data", "persistentVolumeClaim": {"claimName": "disk"}}
        await cities.pods.create(pod("db", place="dfw", volumes=[volume]))
        await cities.wait(1)
        said = condition(await cities.pods.get("db", "default"), "PodScheduled")
        assert said["message"] == "PersistentVolumeClaim disk does not exist."
        claim = {
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "metadata": {"name": "disk", "namespace": "default"},
            "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}},
        }
        await cities.user.resource(VOLUME_CLAIMS).create(claim)
        await cities.wait(5)
        node = (await cities.nodes_of("db"))[0]
        made = await cities.user.resource(VOLUME_CLAIMS).get("disk", "default")
        assert node
        assert made["metadata"]["annotations"]["volume.kubernetes.io/selected-node"] == node

    play(NAMES, story)


def test_a_pod_that_trips_the_scheduler_holds_up_nobody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    choose = Scheduler.choose

    def tripping(self: Scheduler, pod: Pod, turn: int = 0) -> Verdict[str]:
        if pod.name == "odd":
            raise RuntimeError("a bug")
        return choose(self, pod, turn)

    monkeypatch.setattr(Scheduler, "choose", tripping)

    async def story(cities: Cities) -> None:
        for name in ("odd", "even"):
            await cities.pods.create(pod(name))
        await cities.wait(30)
        assert [bool(node) for node in await cities.nodes_of("odd", "even")] == [False, True]

    play(NAMES, story)


def test_a_restarted_scheduler_counts_what_is_placed_already() -> None:
    async def story(cities: Cities) -> None:
        for number in range(4):
            await cities.pods.create(pod(f"old{number}", place="dfw"))
        await cities.wait(1)
        await cities.stop()
        for number in range(4):
            await cities.pods.create(pod(f"new{number}", place="dfw"))
        cities.start(NAMES)
        await cities.wait(2)
        placed = await cities.nodes_of(*(f"{age}{number}" for age in ("old", "new") for number in range(4)))
        counts = [placed.count(f"dfw-{number}") for number in range(3)]
        assert (counts, placed.count("")) == ([2, 2, 2], 2)

    play(NAMES, story, places=[SimLocation("dfw", "DFW", 3)], shape=SMALL)


@pytest.mark.parametrize(("before", "after", "node"), [("500m", "1500m", ""), ("1500m", "500m", "lhr-0")])
def test_a_pod_that_is_resized_in_place_takes_its_new_size_from_its_node(before: str, after: str, node: str) -> None:
    async def story(cities: Cities) -> None:
        await cities.pods.create(pod("first", cpu=before, place="lhr"))
        await cities.wait(0.1)
        container = {"name": "main", "resources": {"requests": {"cpu": after}}}
        patch = {"spec": {"containers": [container]}}
        await cities.pods.patch("first", patch, "default", type="strategic", subresource="resize")
        await cities.pods.create(pod("second", cpu="1", place="lhr"))
        await cities.wait(15)
        assert await cities.nodes_of("first", "second") == ["lhr-0", node]

    play(NAMES, story, shape=SMALL)
