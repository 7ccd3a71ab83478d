"""From one Workload to ready instances in several cities, and back into its status."""

from __future__ import annotations

from tests.controllers.planet import Planet, play


def test_a_workload_becomes_ready_instances_in_each_of_its_cities() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(cities=("DFW", "LHR"), replicas=2)
        await planet.ready(4)
        status = (await planet.workload())["status"]
        assert status["summary"] == {"ready": "4/4", "cities": "2/2", "status": "Available"}
        assert {each["spec"]["cityCode"] for each in await planet.all(planet.deployments)} == {"DFW", "LHR"}

    play(story)
