"""Deletion with `--cascade=orphan`: the children of a Workload are deleted with it, in any order with the collector.

No object could adopt orphans (children contain their owner's uid), so they would only hold names, addresses and
networks for ever.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.networking.names import API_VERSION as NETWORKING
from tarmac.client.targets.target import dynamic
from tests.controllers.planet import Planet, play

BINDINGS = dynamic(NETWORKING, "networkbindings", "NetworkBinding")


async def _orphaned(planet: Planet, resource: Any, name: str) -> None:
    """Delete while only the collector works, so that it acts first."""
    await planet.stop()
    planet.start("garbage")
    await resource.delete(name, "default", propagation="Orphan")

    async def released() -> bool:
        found = await resource.get(name, "default")
        return "orphan" not in found["metadata"]["finalizers"]

    await planet.until(released)
    await planet.stop()
    planet.start()


def test_a_workload_takes_everything_with_it() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply(cities=("DFW", "LHR"))
        await planet.ready(4)
        await _orphaned(planet, planet.workloads, "web")
        await planet.gone(planet.workloads)
        for resource in (planet.deployments, planet.instances, planet.pods, planet.user.resource(BINDINGS)):
            assert await planet.all(resource) == []

    play(story)


def test_a_deployment_takes_its_instances_with_it_and_is_made_again() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply()
        await planet.ready(2)
        (before,) = await planet.all(planet.deployments)
        await _orphaned(planet, planet.deployments, before["metadata"]["name"])

        async def made_again() -> bool:
            found = await planet.all(planet.deployments)
            return bool(found) and found[0]["metadata"]["uid"] != before["metadata"]["uid"]

        await planet.until(made_again)
        await planet.ready(2)

    play(story)


def test_an_instance_takes_its_pod_with_it_and_is_made_again() -> None:
    async def story(planet: Planet) -> None:
        await planet.apply()
        await planet.ready(2)
        before = (await planet.all(planet.instances))[0]["metadata"]
        await _orphaned(planet, planet.instances, before["name"])

        async def made_again() -> bool:
            found = {each["metadata"]["name"]: each["metadata"]["uid"] for each in await planet.all(planet.instances)}
            return found.get(before["name"], before["uid"]) != before["uid"]

        await planet.until(made_again)
        await planet.ready(2)

    play(story)
