"""The readiness of a Location follows its nodes; an isolated one is not lost; one in use stays."""

from __future__ import annotations

from tarmac.api.compute.names import API_VERSION
from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import DEPLOYMENTS, EVENTS, WORKLOADS
from tarmac.sim.nodes.locationobjects import location
from tarmac.sim.nodes.settings import SimLocation
from tests.controllers.cities import DFW, Cities, condition, play
from tests.controllers.planet import workload

NAMES = "location,node,scheduler"


async def deploy(cities: Cities, city: str = "DFW") -> None:
    """Create a Workload and its deployment, as the controller would."""
    owner = await cities.user.resource(WORKLOADS).create(workload(cities=(city,)))
    spec: JsonObject = {
        "workloadRef": {"name": "web", "uid": owner["metadata"]["uid"]},
        "placementName": "all",
        "cityCode": city,
        "template": owner["spec"]["template"],
        "scaleSettings": owner["spec"]["placements"][0]["scaleSettings"],
    }
    metadata = {"name": "web-x", "namespace": "default"}
    await cities.user.resource(DEPLOYMENTS).create(
        {"apiVersion": API_VERSION, "kind": "WorkloadDeployment", "metadata": metadata, "spec": spec}
    )


async def deployment(cities: Cities) -> JsonObject:
    return await cities.user.resource(DEPLOYMENTS).get("web-x", "default")


def test_a_location_is_ready_when_one_of_its_nodes_is() -> None:
    async def story(cities: Cities) -> None:
        made = await cities.locations.get("dfw")
        said = condition(made, "Ready")
        assert (said["status"], said["reason"]) == ("True", "NodesReady")
        assert (made["status"]["nodes"], made["status"]["readyNodes"]) == (3, 3)
        assert made["status"]["allocatable"]["cpu"] == "96"
        assert made["status"]["allocatable"]["memory"] == "384Gi"
        for name in ("dfw-0", "dfw-1"):
            cities.fleet.die(name)
        await cities.wait(60)
        made = await cities.locations.get("dfw")
        assert condition(made, "Ready")["status"] == "True"
        assert (made["status"]["readyNodes"], made["status"]["allocatable"]["cpu"]) == (1, "32")

    play(NAMES, story)


def test_a_location_of_which_nothing_is_heard_is_unreachable_and_comes_back() -> None:
    async def story(cities: Cities) -> None:
        for name in DFW.node_names():
            cities.fleet.cut(name)
        await cities.wait(60)
        said = condition(await cities.locations.get("dfw"), "Ready")
        assert (said["status"], said["reason"]) == ("Unknown", "LocationUnreachable")
        assert condition(await cities.locations.get("lhr"), "Ready")["status"] == "True"
        cities.fleet.heal("dfw-1")
        await cities.wait(20)
        assert condition(await cities.locations.get("dfw"), "Ready")["status"] == "True"

    play(NAMES, story)


def test_a_location_without_nodes_is_not_ready() -> None:
    async def story(cities: Cities) -> None:
        await cities.locations.create(location(SimLocation("sea", "SEA", 0)))
        await cities.wait(1)
        said = condition(await cities.locations.get("sea"), "Ready")
        assert (said["status"], said["reason"]) == ("False", "NoReadyNodes")

    play(NAMES, story)


def test_a_deployment_gets_the_ready_location_of_its_city() -> None:
    async def story(cities: Cities) -> None:
        await cities.locations.create(location(SimLocation("dfw-a", "DFW", 0)))
        await cities.wait(1)
        await deploy(cities)
        await cities.wait(1)
        status = (await deployment(cities))["status"]
        assert status["location"] == {"name": "dfw"}
        assert condition(await deployment(cities), "Scheduled")["reason"] == "LocationAssigned"

    play(NAMES, story)


def test_a_deployment_waits_for_a_location_and_says_so() -> None:
    async def story(cities: Cities) -> None:
        await cities.locations.create(location(SimLocation("sea", "SEA", 0)))
        await cities.wait(1)
        await deploy(cities, "SEA")
        await cities.wait(1)
        said = condition(await deployment(cities), "Scheduled")
        assert (said["status"], said["reason"]) == ("False", "NoCandidateLocations")
        assert "SEA" in said["message"]
        events = (await cities.user.resource(EVENTS).list("default")).items
        assert "NoCandidateLocations" in [
            each["reason"] for each in events if each["involvedObject"]["kind"] == "Workload"
        ]
        await cities.nodes.patch("lhr-0", {"metadata": {"labels": {"topology.datum.net/location": "sea"}}})
        await cities.wait(2)
        assert (await deployment(cities))["status"]["location"] == {"name": "sea"}

    play(NAMES, story)


def test_a_location_in_use_stays_until_it_is_free() -> None:
    async def story(cities: Cities) -> None:
        await deploy(cities)
        await cities.wait(1)
        await cities.locations.delete("dfw")
        await cities.wait(5)
        assert (await cities.locations.get("dfw"))["metadata"]["deletionTimestamp"]
        await cities.user.resource(DEPLOYMENTS).delete("web-x", "default")
        await cities.wait(1)
        assert await cities.gone(cities.locations, "dfw")

    play(NAMES, story)


def test_a_deployment_whose_location_was_removed_by_force_gets_another() -> None:
    async def story(cities: Cities) -> None:
        await deploy(cities)
        await cities.wait(1)
        await cities.locations.delete("dfw")
        await cities.locations.patch("dfw", {"metadata": {"finalizers": None}})
        await cities.wait(1)
        assert "location" not in (await deployment(cities))["status"]
        assert condition(await deployment(cities), "Scheduled")["reason"] == "NoCandidateLocations"
        await cities.locations.create(location(DFW))
        await cities.wait(1)
        assert (await deployment(cities))["status"]["location"] == {"name": "dfw"}

    play(NAMES, story)


def test_nothing_is_written_when_nothing_changes() -> None:
    async def story(cities: Cities) -> None:
        await deploy(cities)
        await cities.wait(5)
        before = [await cities.locations.get("dfw"), await deployment(cities)]
        await cities.stop()
        cities.start(NAMES)
        await cities.wait(30)
        assert before == [await cities.locations.get("dfw"), await deployment(cities)]

    play(NAMES, story)
