"""A silent node is tainted, and its pods are evicted after their tolerations' time, and not before."""

from __future__ import annotations

import itertools
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import LEASES
from tarmac.sim.nodes.settings import SimLocation
from tests.controllers.cities import DFW, Cities, condition, play, pod

NAMES = "scheduler,node"
UNREACHABLE = "node.kubernetes.io/unreachable"


def taints(node: JsonObject) -> list[tuple[str, str]]:
    return sorted((taint["key"].partition("/")[2], taint["effect"]) for taint in node["spec"].get("taints") or ())


def tolerating(seconds: int | None) -> list[Any]:
    limit = {} if seconds is None else {"tolerationSeconds": seconds}
    return [{"key": UNREACHABLE, "operator": "Exists", "effect": "NoExecute", **limit}]


async def pinned(cities: Cities, name: str, node: str, **spec: Any) -> None:
    """Return a running pod that only a failed node loses."""
    await cities.pods.create(pod(name, **spec, nodeName=node))
    await cities.wait(3)
    assert condition(await cities.pods.get(name, "default"), "Ready")["status"] == "True"


def test_a_new_node_takes_pods_once_it_is_ready() -> None:
    async def story(cities: Cities) -> None:
        assert [taints(node) for node in (await cities.nodes.list()).items] == [[]] * 4

    play(NAMES, story)


def test_a_cordoned_node_is_tainted_and_other_peoples_taints_are_kept() -> None:
    async def story(cities: Cities) -> None:
        foreign = [{"key": "example.com/mine", "effect": "NoSchedule"}]
        await cities.nodes.patch("dfw-0", {"spec": {"unschedulable": True, "taints": foreign}})
        await cities.wait(1)
        assert taints(await cities.nodes.get("dfw-0")) == [("mine", "NoSchedule"), ("unschedulable", "NoSchedule")]
        await cities.nodes.patch("dfw-0", {"spec": {"unschedulable": None}})
        await cities.wait(1)
        assert taints(await cities.nodes.get("dfw-0")) == [("mine", "NoSchedule")]

    play(NAMES, story)


def test_a_silent_node_is_unknown_when_its_lease_has_run_out_and_not_before() -> None:
    async def story(cities: Cities) -> None:
        cities.fleet.die("dfw-0")
        await cities.wait(28)  # the last renewal may be ten seconds old
        assert condition(await cities.nodes.get("dfw-0"), "Ready")["status"] == "True"
        await cities.wait(15)
        node = await cities.nodes.get("dfw-0")
        said = condition(node, "Ready")
        assert (said["status"], said["reason"]) == ("Unknown", "NodeStatusUnknown")
        assert taints(node) == [("unreachable", "NoExecute"), ("unreachable", "NoSchedule")]
        cities.fleet.revive("dfw-0")
        await cities.wait(15)
        node = await cities.nodes.get("dfw-0")
        assert (condition(node, "Ready")["status"], taints(node)) == ("True", [])

    play(NAMES, story)


def test_pods_of_a_lost_node_are_not_ready_and_go_after_their_time() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "patient", "dfw-0")
        await pinned(cities, "hasty", "dfw-0", tolerations=tolerating(20))
        await pinned(cities, "stubborn", "dfw-0", tolerations=tolerating(None))
        cities.fleet.die("dfw-0")
        await cities.wait(45)
        assert condition(await cities.pods.get("patient", "default"), "Ready")["reason"] == "NodeNotReady"
        assert not await cities.gone(cities.pods, "hasty", "default")
        await cities.wait(25)
        assert await cities.gone(cities.pods, "hasty", "default")
        await cities.wait(220)
        assert not await cities.gone(cities.pods, "patient", "default")
        await cities.wait(80)
        assert await cities.gone(cities.pods, "patient", "default")
        await cities.wait(3600)
        assert not await cities.gone(cities.pods, "stubborn", "default")

    play(NAMES, story)


def test_a_node_that_is_heard_from_again_in_time_keeps_its_pods() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "survivor", "dfw-0")
        uid = (await cities.pods.get("survivor", "default"))["metadata"]["uid"]
        cities.fleet.cut("dfw-0")
        await cities.wait(300)
        cities.fleet.heal("dfw-0")
        await cities.wait(600)
        survivor = await cities.pods.get("survivor", "default")
        assert (survivor["metadata"]["uid"], condition(survivor, "Ready")["status"]) == (uid, "True")

    play(NAMES, story)


def test_a_jump_of_the_wall_clock_drives_nobody_away() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "calm", "dfw-0")
        for seconds in (3600, -7200, 86400):
            cities.world.clocks["controllers"].jump(seconds)
            await cities.wait(120)
        cities.fleet.die("dfw-0")
        await cities.wait(60)
        cities.world.clocks["controllers"].jump(86400)
        await cities.wait(60)
        assert not await cities.gone(cities.pods, "calm", "default")
        assert condition(await cities.nodes.get("dfw-1"), "Ready")["status"] == "True"

    play(NAMES, story)


def test_a_city_that_is_cut_off_keeps_its_pods() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "far", "dfw-0", tolerations=tolerating(60))
        for name in DFW.node_names():
            cities.fleet.cut(name)
        await cities.wait(1800)
        assert taints(await cities.nodes.get("dfw-0")) == [("unreachable", "NoSchedule")]
        assert not await cities.gone(cities.pods, "far", "default")
        for name in DFW.node_names():
            cities.fleet.heal(name)
        await cities.wait(30)
        assert condition(await cities.pods.get("far", "default"), "Ready")["status"] == "True"

    play(NAMES, story)


def test_nodes_of_one_place_are_given_up_one_after_the_other() -> None:
    async def story(cities: Cities) -> None:
        for number in range(5):
            cities.fleet.die(f"big-{number}")
        given_up: list[int] = []
        for _ in range(60):
            await cities.wait(2)
            nodes = (await cities.nodes.list()).items
            given_up.append(sum(("unreachable", "NoExecute") in taints(node) for node in nodes))
        steps = [later - earlier for earlier, later in itertools.pairwise(given_up)]
        assert given_up[-1] == 5
        assert max(steps) == 1
        assert given_up.index(5) - given_up.index(1) >= 4 * 10 / 2 - 1

    play(NAMES, story, places=[SimLocation("big", "BIG", 20)])


def test_when_half_a_small_place_is_in_trouble_nobody_is_given_up() -> None:
    async def story(cities: Cities) -> None:
        for number in range(6):
            cities.fleet.die(f"big-{number}")
        await cities.wait(300)
        nodes = (await cities.nodes.list()).items
        barred = sum(("unreachable", "NoSchedule") in taints(node) for node in nodes)
        driving = sum(("unreachable", "NoExecute") in taints(node) for node in nodes)
        assert (barred, driving <= 2) == (6, True)

    play(NAMES, story, places=[SimLocation("big", "BIG", 8)])


def test_pods_of_a_deleted_node_are_removed() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "orphan", "dfw-0")
        cities.fleet.die("dfw-0")
        await cities.nodes.delete("dfw-0")
        await cities.user.resource(LEASES).delete("dfw-0", "kube-node-lease")
        await cities.wait(20)
        assert not await cities.gone(cities.pods, "orphan", "default")
        await cities.wait(60)
        assert await cities.gone(cities.pods, "orphan", "default")

    play(NAMES, story)


def test_pods_of_a_node_deleted_while_nobody_looked_are_removed() -> None:
    async def story(cities: Cities) -> None:
        await pinned(cities, "orphan", "dfw-0")
        await cities.stop()
        cities.fleet.die("dfw-0")
        await cities.nodes.delete("dfw-0")
        cities.start(NAMES)
        await cities.wait(90)
        assert await cities.gone(cities.pods, "orphan", "default")

    play(NAMES, story)
