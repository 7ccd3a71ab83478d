"""An important pod on a full city: as few less important pods as possible end for it, and few at a time."""

from __future__ import annotations

from typing import Any

from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.client.requests import decode_json
from tarmac.client.targets.target import dynamic, encode
from tarmac.client.targets.untyped import EVENTS
from tarmac.controllers.scheduler.preemptions import AT_ONCE
from tarmac.sim.nodes.settings import NodeShape, SimLocation
from tests.controllers.cities import Cities, condition, play, pod
from tests.controllers.planet import WORKLOADS, workload
from tests.controllers.test_controller_roles import PRIORITIES
from tests.controllers.test_disruption_budgets import WITH_WORKLOADS

NAMES = "scheduler,node"
SMALL = NodeShape(cpu=2, memory="4Gi", pods=10)
ONE = (SimLocation("lhr", "LHR", 1),)


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


def test_a_victim_of_another_namespace_is_not_told_the_name_of_the_pod() -> None:
    async def story(cities: Cities) -> None:
        await classes(cities)
        namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "secret"}}
        await cities.user.resource(dynamic("v1", "namespaces", "Namespace", namespaced=False)).create(namespace)
        await run(cities, "old", "new")
        theirs = pod("vital", cpu="1", priorityClassName="high")
        theirs["metadata"]["namespace"] = "secret"
        made = await cities.pods.create(theirs)
        await cities.wait(10)
        events = (await cities.user.resource(EVENTS).list("default")).items
        (told,) = [each["message"] for each in events if each["reason"] == "Preempted"]
        assert told == f"Preempted by pod {made['metadata']['uid']} on node lhr-0"

    play(NAMES, story, places=ONE, shape=SMALL)


async def gone_and_there(cities: Cities, gone: str, there: str) -> bool:
    return await cities.gone(cities.pods, gone, "default") and there in await running(cities)


def test_tarmac_why_names_the_victims_of_a_preemption() -> None:
    async def story(cities: Cities) -> None:
        await classes(cities)
        await run(cities, "a", "b")
        await cities.stop()
        await cities.pods.create(pod("vital", cpu="2", priorityClassName="high"))
        await cities.pods.create(pod("polite", cpu="2", priorityClassName="polite"))
        assert await why(cities, "vital") == ["Less important pods would end on lhr-0 to make room: a and b."]
        assert await why(cities, "polite") == []
        await cities.pods.patch("vital", {"status": {"nominatedNodeName": "lhr-0"}}, "default", subresource="status")
        assert await why(cities, "vital") == ["It is to have the place of a less important pod on lhr-0."]

    play(NAMES, story, places=ONE, shape=SMALL)


async def why(cities: Cities, name: str) -> list[str]:
    """Return the verdicts of `tarmac why` about preemption."""
    found = await cities.user.get_json(f"/api/v1/namespaces/default/pods/{name}/why")
    return [each["message"] for each in found["verdicts"] if each.get("rule") == "preemption"]


def test_an_important_workload_gets_its_room_in_a_full_city_and_the_plan_says_whose() -> None:
    async def story(cities: Cities) -> None:
        await run(cities, "a", "b", cpu="2")
        important = workload(cities=("LHR",), replicas=2, template={"priorityClassName": "system-cluster-critical"})
        path = f"{WORKLOADS.path('default', 'web')}/plan"
        plan = decode_json((await cities.user.call("POST", path, {}, encode(important))).body)
        (city,) = plan["cities"]
        assert sorted(name for each in city["endings"] for name in each["pods"]) == ["a", "b"]
        assert not city.get("refused")
        await cities.user.resource(WORKLOADS).create(important)

        async def there() -> bool:
            return [name.partition("-")[0] for name in await running(cities)] == ["web", "web"]

        await cities.until(there)

    play(WITH_WORKLOADS, story, places=ONE, shape=NodeShape(cpu=4, memory="32Gi", pods=10))


def test_equal_priority_and_policy_never_preempt_no_pods() -> None:
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


CITY = (SimLocation("dfw", "DFW", 12),)
BURST = 24  # as many as the city holds


async def burst(cities: Cities) -> None:
    """Fill a city with pods, and create as many that are more important; half of them name the city."""
    await classes(cities)
    await run(cities, *(f"a{number:02}" for number in range(BURST)))
    for number in range(BURST):
        await cities.pods.create(pod(f"b{number:02}", "1", "dfw" if number % 2 else "", priorityClassName="high"))


async def most_at_once(cities: Cities, looks: int) -> int:
    """Return the most pods that were being deleted together, until all important ones have a node."""
    worst = 0
    for _ in range(looks):
        pods = (await cities.pods.list("default")).items
        worst = max(worst, sum("deletionTimestamp" in each["metadata"] for each in pods))
        if sum(each["metadata"]["name"][0] == "b" and "nodeName" in each["spec"] for each in pods) == BURST:
            break
        await cities.wait(0.25)
    return worst


def test_a_burst_of_important_pods_takes_a_few_at_a_time() -> None:
    async def story(cities: Cities) -> None:
        await burst(cities)
        assert 0 < await most_at_once(cities, 2400) <= AT_ONCE
        assert await running(cities) == [f"b{number:02}" for number in range(BURST)]

    play(NAMES, story, places=CITY, shape=SMALL)


def test_controllers_that_start_anew_in_the_middle_of_a_burst_take_no_more() -> None:
    async def story(cities: Cities) -> None:
        for number in range(BURST // 2):  # nodes without an agent: deleted pods stay there
            status = {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "10"}}
            metadata = {"name": f"still-{number}", "labels": {LABEL_LOCATION: "dfw"}}
            await cities.nodes.create({"metadata": metadata, "status": status})
            await cities.nodes.patch(f"still-{number}", {"spec": {"taints": None}})
        await burst(cities)
        await cities.wait(30)
        assert await going(cities) == AT_ONCE
        await cities.stop()
        for number in range(AT_ONCE):  # these come before the waiting ones
            await cities.pods.create(pod(f"c{number:02}", priorityClassName="top"))
        cities.start("scheduler")
        await cities.wait(60)
        assert await going(cities) == AT_ONCE

    play("scheduler", story, places=())


async def going(cities: Cities) -> int:
    """Return the pods that are being deleted."""
    return sum("deletionTimestamp" in each["metadata"] for each in (await cities.pods.list("default")).items)


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
