"""The size of a deployment with metrics follows them; without readings it stays."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.apps.control_plane import CONTROLLING
from tarmac.client.targets.untyped import DEPLOYMENTS, WORKLOADS
from tarmac.controllers.manager import ControllerManager
from tarmac.controllers.metricsources import ExternalQuery, InstanceUsage, NoMetric
from tests.controllers.cities import Cities, condition, play
from tests.controllers.planet import workload

REST = "namespace,volume,workload,deployment,instance,scheduler,network,location,node,quota"
REQUESTS = {
    "external": {
        "metric": {
            "name": "http:requests:rate5m",
            "selector": {"matchLabels": {"city": "{{ context.locality.cityCode }}", "app": "web"}},
        },
        "target": {"averageValue": "30"},
    }
}
CPU = {"resource": {"name": "cpu", "target": {"averageUtilization": 50}}}


class Load:
    """The simulated metrics: requests by query, and the usage of each pod."""

    def __init__(self) -> None:
        self.requests: dict[str, int] = {}
        self.cpu: Callable[[str], int | None] = lambda _: None
        self.pods: Callable[[], Coroutine[Any, Any, list[str]]]
        self.clock: Callable[[], float]
        self.asked: list[ExternalQuery] = []

    async def external(self, question: ExternalQuery) -> Sequence[int]:
        self.asked.append(question)
        for city, value in self.requests.items():
            if f'city="{city}"' in question.query:
                return [value * 1000]
        raise NoMetric("no such series")

    async def usage(self, namespace: str, labels: str) -> Mapping[str, InstanceUsage]:
        found = {name: self.cpu(name) for name in await self.pods()}
        return {name: InstanceUsage({"cpu": use}, self.clock()) for name, use in found.items() if use is not None}

    async def close(self) -> None:
        pass


def scaled(*metrics: JsonObject, cities: tuple[str, ...] = ("DFW",), **settings: Any) -> JsonObject:
    made = workload(cities=cities, replicas=2, policy="Parallel")
    made["spec"]["placements"][0]["scaleSettings"] |= {"maxReplicas": 10, "metrics": list(metrics), **settings}
    return made


async def replicas(cities: Cities) -> dict[str, int]:
    found = (await cities.user.resource(DEPLOYMENTS).list("default")).items
    return {each["spec"]["cityCode"]: each["status"]["readyReplicas"] for each in found}


async def said(cities: Cities, kind: str) -> JsonObject:
    found = (await cities.user.resource(DEPLOYMENTS).list("default")).items
    return condition(found[0], kind)


def scale(story: Callable[[Cities, Load], Coroutine[Any, Any, None]]) -> None:
    """Run a story with an autoscaler that reads `Load`."""

    async def with_load(cities: Cities) -> None:
        load = Load()

        async def pods() -> list[str]:
            return [pod["metadata"]["name"] for pod in (await cities.pods.list("default")).items]

        load.pods, load.clock = pods, cities.world.clock.now
        client = cities.world.client("autoscaler", cities.world.link(CONTROLLING))
        task = asyncio.create_task(ControllerManager(client, "autoscaler", metrics_source=load).run())
        await story(cities, load)
        task.cancel()
        await asyncio.wait([task])

    play(REST, with_load)


def test_each_city_follows_its_own_load_up_and_down() -> None:
    async def story(cities: Cities, load: Load) -> None:
        load.requests = {"DFW": 150, "LHR": 20}
        await cities.user.resource(WORKLOADS).create(scaled(REQUESTS, cities=("DFW", "LHR")))
        await cities.wait(90)
        assert await replicas(cities) == {"DFW": 5, "LHR": 2}
        assert load.asked[0].query in {f'http:requests:rate5m{{city="{city}",app="web"}}' for city in ("DFW", "LHR")}
        load.requests["DFW"] = 60
        await cities.wait(200)
        assert (await replicas(cities))["DFW"] == 5  # a recent peak delays scaling down
        await cities.wait(200)
        assert (await replicas(cities))["DFW"] == 2

    scale(story)


def test_the_status_tells_what_metrics_say_when_it_is_news_and_at_most_once_a_minute() -> None:
    async def story(cities: Cities, load: Load) -> None:
        async def told() -> JsonObject:
            (found,) = (await cities.user.resource(DEPLOYMENTS).list("default")).items
            return found["status"].get("scaling") or {}

        load.requests = {"DFW": 150}
        await cities.user.resource(WORKLOADS).create(scaled(REQUESTS))
        await cities.wait(200)
        found = await told()
        assert found["wanted"] == 5
        assert found["metrics"] == [{"name": "http:requests:rate5m", "value": "30", "target": "30", "replicas": 5}]
        load.requests = {"DFW": 151}  # a tenth is tolerated
        await cities.wait(200)
        assert await told() == found
        times = set[str]()
        for number in range(60):
            load.requests = {"DFW": 80 if number % 2 else 200}
            await cities.wait(5)
            times.add((await told())["time"])
        assert 3 <= len(times) <= 6  # in five minutes
        home = "/spec/placements/0/scaleSettings"
        edits = [{"op": "remove", "path": f"{home}/{field}"} for field in ("metrics", "maxReplicas")]
        await cities.user.resource(WORKLOADS).patch("web", edits, "default", type="json")
        await cities.wait(60)
        assert await told() == {}

    scale(story)


def test_bounds_hold_and_are_told() -> None:
    async def story(cities: Cities, load: Load) -> None:
        load.requests = {"DFW": 900}
        await cities.user.resource(WORKLOADS).create(scaled(REQUESTS))
        await cities.wait(120)
        assert await replicas(cities) == {"DFW": 10}
        assert (await said(cities, "AutoscalingLimited"))["reason"] == "TooManyReplicas"
        load.requests = {"DFW": 300}
        await cities.wait(30)
        assert (await said(cities, "AutoscalingLimited"))["status"] == "False"

    scale(story)


def test_metrics_that_cannot_be_read_change_nothing_and_are_told() -> None:
    async def story(cities: Cities, load: Load) -> None:
        load.requests = {"DFW": 150}
        await cities.user.resource(WORKLOADS).create(scaled(REQUESTS))
        await cities.wait(90)
        load.requests = {}
        await cities.wait(900)
        assert await replicas(cities) == {"DFW": 5}
        ready = await said(cities, "AutoscalingReady")
        assert (ready["status"], ready["reason"]) == ("False", "MetricsUnavailable")
        assert "no such series" in ready["message"]

    scale(story)


def test_processors_in_use_are_compared_with_what_instances_have() -> None:
    async def story(cities: Cities, load: Load) -> None:
        load.cpu = lambda _: 2000  # both processors of each, so twice the target
        await cities.user.resource(WORKLOADS).create(scaled(CPU))
        await cities.wait(60)
        assert (await replicas(cities))["DFW"] >= 4
        load.cpu = lambda _: 1000
        await cities.wait(60)
        steady = await replicas(cities)
        await cities.wait(600)
        assert await replicas(cities) == steady

    scale(story)


def test_the_workload_never_resets_the_number_and_pausing_stops_scaling() -> None:
    async def story(cities: Cities, load: Load) -> None:
        load.requests = {"DFW": 150}
        workloads = cities.user.resource(WORKLOADS)
        await workloads.create(scaled(REQUESTS))
        await cities.wait(90)
        await workloads.patch("web", {"metadata": {"labels": {"touched": "yes"}}, "spec": {"paused": True}}, "default")
        await cities.wait(30)
        load.requests = {"DFW": 300}
        await cities.wait(300)
        assert await replicas(cities) == {"DFW": 5}
        await workloads.patch("web", {"spec": {"paused": False}}, "default")
        await cities.wait(60)
        assert await replicas(cities) == {"DFW": 10}

    scale(story)


def test_nothing_is_written_while_the_load_is_steady() -> None:
    async def story(cities: Cities, load: Load) -> None:
        load.requests = {"DFW": 90}
        await cities.user.resource(WORKLOADS).create(scaled(REQUESTS))
        await cities.wait(120)
        before = (await cities.user.resource(DEPLOYMENTS).list("default")).items
        await cities.wait(900)
        assert (await cities.user.resource(DEPLOYMENTS).list("default")).items == before

    scale(story)


def test_conditions_go_with_the_metrics() -> None:
    async def story(cities: Cities, load: Load) -> None:
        load.requests = {"DFW": 90}
        workloads = cities.user.resource(WORKLOADS)
        await workloads.create(scaled(REQUESTS))
        await cities.wait(60)
        assert await said(cities, "AutoscalingReady")
        placements = workload(replicas=2)["spec"]["placements"]
        await workloads.patch("web", {"spec": {"placements": placements}}, "default")
        await cities.wait(30)
        assert not await said(cities, "AutoscalingReady")

    scale(story)
