"""An important pod on a full city: less important ones end for it, as few as can be, and few at a time."""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.client.targets import EVENTS
from tarmac.controllers.scheduler.preemptions import AT_ONCE
from tarmac.sim.nodes.settings import Place, Shape
from tests.controllers.cities import Cities, condition, play, pod
from tests.controllers.test_under_their_own_roles import PRIORITIES

NAMES = "scheduler,node"
SMALL = Shape(cpu=2, memory="4Gi", pods=10)
ONE = (Place("lhr", "LHR", 1),)


async def classes(cities: Cities) -> None:
    for name, value, policy in (("high", 1000, None), ("top", 2000, None), ("polite", 1000, "Never")):
        body = {"metadata": {"name": name}, "value": value, **({"preemptionPolicy": policy} if policy else {})}
        await cities.user.resource(PRIORITIES).create(body)


async def run(cities: Cities, *names: str, cpu: str = "1", **spec: Any) -> None:
    for name in names:
        await cities.pods.create(pod(name, cpu=cpu, **spec))
    await cities.wait(5)


async def found(cities: Cities, name: str) -> JsonObject:
    return await cities.pods.get(name, "default")


async def running(cities: Cities) -> list[str]:
    pods = (await cities.pods.list("default")).items
    return sorted(each["metadata"]["name"] for each in pods if each["spec"].get("nodeName"))


def test_the_least_important_goes_and_the_pod_gets_its_place() -> None:
    async def story(cities: Cities) -> None:
        await classes(cities)
        await run(cities, "old")
        await run(cities, "new")
        await cities.pods.create(pod("vital", cpu="1", priorityClassName="high"))
        while "deletionTimestamp" not in (await found(cities, "new"))["metadata"]:
            await cities.wait(0.01)
        vital = await found(cities, "vital")
        assert vital["status"]["nominatedNodeName"] == "lhr-0"
        said = condition(vital, "PodScheduled")["message"]
        assert said.endswith("Less important pods end on lhr-0 to make room: new.")
        victim = await found(cities, "new")
        target = condition(victim, "DisruptionTarget")
        assert (target["status"], target["reason"]) == ("True", "PreemptionByScheduler")
        await cities.until(lambda: gone_and_there(cities, "new", "vital"))
        assert await running(cities) == ["old", "vital"]
        events = (await cities.user.resource(EVENTS).list("default")).items
        told = [(each["involvedObject"]["name"], each["message"]) for each in events if each["reason"] == "Preempted"]
        assert told == [("new", "Preempted by pod default/vital on node lhr-0")]

    play(NAMES, story, places=ONE, shape=SMALL)


async def gone_and_there(cities: Cities, gone: str, there: str) -> bool:
    return await cities.gone(cities.pods, gone, "default") and there in await running(cities)


def test_why_says_who_would_end_and_who_does() -> None:
    async def story(cities: Cities) -> None:
        await classes(cities)
        await run(cities, "a", "b")
        await cities.stop()
        await cities.pods.create(pod("vital", cpu="2", priorityClassName="high"))
        await cities.pods.create(pod("polite", cpu="2", priorityClassName="polite"))
        assert await why(cities, "vital") == [
            "Less important pods would end on lhr-0 to make room: default/a, default/b."
        ]
        assert await why(cities, "polite") == []
        await cities.pods.patch("vital", {"status": {"nominatedNodeName": "lhr-0"}}, "default", subresource="status")
        assert await why(cities, "vital") == ["Less important pods end on lhr-0; it gets their room."]

    play(NAMES, story, places=ONE, shape=SMALL)


async def why(cities: Cities, name: str) -> list[str]:
    """What `tarmac why` says of making room."""
    found = await cities.user.get_json(f"/api/v1/namespaces/default/pods/{name}/why")
    return [each["message"] for each in found["verdicts"] if each.get("rule") == "preemption"]


def test_nobody_goes_for_an_equal_or_for_one_that_does_not_want_it() -> None:
    async def story(cities: Cities) -> None:
        await classes(cities)
        await run(cities, "a", "b")
        await run(cities, "equal")
        await run(cities, "polite", priorityClassName="polite")
        await run(cities, "huge", cpu="3", priorityClassName="high")
        await cities.wait(60)
        assert await running(cities) == ["a", "b"]

    play(NAMES, story, places=ONE, shape=SMALL)


def test_the_place_is_kept_from_less_important_pods_that_come_meanwhile() -> None:
    async def story(cities: Cities) -> None:
        await classes(cities)
        await run(cities, "a", "b")
        await run(cities, "vital", cpu="2", priorityClassName="high")
        await run(cities, *(f"late{number}" for number in range(4)))
        await cities.wait(60)
        assert await running(cities) == ["vital"]

    play(NAMES, story, places=ONE, shape=SMALL)


def test_the_more_important_of_two_takes_the_place_that_was_meant_for_the_other() -> None:
    async def story(cities: Cities) -> None:
        await classes(cities)
        await run(cities, "a", cpu="2")
        await cities.pods.create(pod("high", cpu="2", priorityClassName="high"))
        await cities.wait(0.3)
        await cities.pods.create(pod("top", cpu="2", priorityClassName="top"))
        await cities.wait(60)
        assert await running(cities) == ["top"]
        assert not (await found(cities, "high"))["status"].get("nominatedNodeName")

    play(NAMES, story, places=ONE, shape=SMALL)


def test_a_burst_of_important_pods_takes_a_few_at_a_time() -> None:
    async def story(cities: Cities) -> None:
        await classes(cities)
        await run(cities, *(f"a{number:02}" for number in range(24)))
        worst = 0
        for number in range(24):
            await cities.pods.create(pod(f"b{number:02}", priorityClassName="high"))
        for _ in range(2400):
            pods = (await cities.pods.list("default")).items
            going = [each for each in pods if "deletionTimestamp" in each["metadata"]]
            worst = max(worst, len(going))
            if (
                len([each for each in pods if each["metadata"]["name"][0] == "b" and each["spec"].get("nodeName")])
                == 24
            ):
                break
            await cities.wait(0.25)
        assert 0 < worst <= AT_ONCE
        assert await running(cities) == [f"b{number:02}" for number in range(24)]

    play(NAMES, story, places=(Place("dfw", "DFW", 12),), shape=SMALL)


def test_controllers_that_start_anew_wait_for_the_victims_that_are_on_their_way() -> None:
    async def story(cities: Cities) -> None:
        await classes(cities)
        await run(cities, "a", "b")
        await cities.pods.create(pod("vital", priorityClassName="high"))
        await cities.wait(1)
        await cities.stop()
        cities.start(NAMES)
        await cities.wait(60)
        assert len(await running(cities)) == 2, "one went, not two"
        assert "vital" in await running(cities)

    play(NAMES, story, places=ONE, shape=SMALL)
