"""All controllers at once: a Workload is placed, gets networks, addresses, nodes and runs; cities fail and return."""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import INSTANCES, RESOURCE_QUOTAS, WORKLOADS
from tests.controllers.cities import DFW, LHR, Cities, condition, play
from tests.controllers.planet import workload

NAMES = "namespace,volume,workload,deployment,instance,scheduler,network,location,node,quota"


async def web(cities: Cities) -> JsonObject:
    return await cities.user.resource(WORKLOADS).get("web", "default")


async def ready(cities: Cities, count: int, seconds: float = 60) -> None:
    async def check() -> bool:
        return ((await web(cities)).get("status") or {}).get("readyReplicas", 0) == count

    await cities.until(check, seconds)


async def instances(cities: Cities) -> list[JsonObject]:
    return (await cities.user.resource(INSTANCES).list("default")).items


def test_a_workload_runs_in_its_cities_with_addresses_of_its_own() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(WORKLOADS).create(workload(cities=("DFW", "LHR"), replicas=3))
        await ready(cities, 6)
        assert condition(await web(cities), "Available")["status"] == "True"
        made = await instances(cities)
        addresses = [
            address["address"]
            for each in made
            for interface in each["status"]["networkInterfaces"]
            for address in interface["addresses"]
        ]
        assert len(set(addresses)) == len(addresses) == 12
        assert {each["status"]["nodeName"] for each in made} >= {"dfw-0", "dfw-1", "dfw-2", "lhr-0"}

    play(NAMES, story)


def test_instances_of_a_lost_node_come_back_elsewhere_in_the_city() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(WORKLOADS).create(workload(replicas=3))
        await ready(cities, 3)
        cities.fleet.die("dfw-1")
        await ready(cities, 2, 90)
        await ready(cities, 3, 500)
        assert "dfw-1" not in {each["status"]["nodeName"] for each in await instances(cities)}

    play(NAMES, story)


def test_a_city_that_is_cut_off_is_not_replaced_and_comes_back_by_itself() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(WORKLOADS).create(workload(cities=("DFW", "LHR"), replicas=2))
        await ready(cities, 4)
        before = {each["metadata"]["uid"] for each in await instances(cities)}
        for name in DFW.node_names():
            cities.fleet.cut(name)
        await ready(cities, 2, 120)
        await cities.wait(1200)
        for name in DFW.node_names():
            cities.fleet.heal(name)
        await ready(cities, 4, 60)
        assert {each["metadata"]["uid"] for each in await instances(cities)} == before

    play(NAMES, story)


def test_a_quota_holds_a_workload_back_until_it_is_raised() -> None:
    async def story(cities: Cities) -> None:
        hard = {"count/instances.compute.datumapis.com": "2"}
        quota = {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "team", "namespace": "default"},
            "spec": {"hard": hard},
        }
        await cities.user.resource(RESOURCE_QUOTAS).create(quota)
        await cities.user.resource(WORKLOADS).create(workload(replicas=4, policy="Parallel"))
        await ready(cities, 2)
        await cities.wait(5)
        said = condition(await web(cities), "Progressing")
        assert (said["status"], said["reason"]) == ("False", "QuotaExhausted")
        assert "DFW" in said["message"]
        await cities.user.resource(RESOURCE_QUOTAS).patch(
            "team", {"spec": {"hard": {**dict.fromkeys(hard, "4")}}}, "default"
        )
        await ready(cities, 4)

    play(NAMES, story)


def test_deleting_a_workload_leaves_nothing_and_frees_its_location() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(WORKLOADS).create(workload(cities=("LHR",), replicas=2))
        await ready(cities, 2)
        await cities.locations.delete(LHR.name)
        await cities.user.resource(WORKLOADS).delete("web", "default")
        await cities.wait(30)
        assert await instances(cities) == []
        assert (await cities.pods.list("default")).items == []
        assert await cities.gone(cities.locations, LHR.name)

    play(NAMES, story)
