"""The number of instances follows the manifest."""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tests.stories.manifests import placement, workload
from tests.stories.telling import story
from tests.stories.world import World


@story
async def scale_by_editing(world: World) -> None:
    """Three instances instead of two in each city, then one: the highest ordinals come last and go first."""
    await world.open("DFW", "LHR")
    await world.apply(workload(placement("DFW", "LHR", replicas=2)))
    found = await world.settled(4)
    assert found["status"]["summary"] == {"ready": "4/4", "cities": "2/2", "status": "Available"}

    await world.edit("web", lambda spec: _scale(spec, 3))
    await world.settled(6)
    assert await _ordinals(world, "DFW") == ["0", "1", "2"]
    addresses = [each["status"]["networkInterfaces"][0]["assignments"]["networkIP"] for each in await _all(world)]
    assert len(set(addresses)) == 6

    await world.edit("web", lambda spec: _scale(spec, 1))
    await world.settled(2)
    assert await _ordinals(world, "DFW") == ["0"]
    assert await _ordinals(world, "LHR") == ["0"]


@story
async def an_edit_that_changes_nothing(world: World) -> None:
    """Nothing below the Workload is written."""
    await world.open("DFW")
    await world.apply(workload(placement("DFW", replicas=2)))
    await world.settled(2)
    before = await _versions(world)
    await world.apply(workload(placement("DFW", replicas=2)))
    await world.edit("web", lambda _spec: None)
    await world.client.clock.sleep(1)
    assert await _versions(world) == before


def _scale(spec: JsonObject, replicas: int) -> None:
    spec["placements"][0]["scaleSettings"]["minReplicas"] = replicas


async def _all(world: World) -> list[JsonObject]:
    return await world.all(world.instances)


async def _ordinals(world: World, city: str) -> list[str]:
    found = await world.instances_in(city)
    return [each["metadata"]["labels"]["compute.datumapis.com/instance-index"] for each in found]


async def _versions(world: World) -> dict[str, str]:
    kinds = (world.workloads, world.deployments, world.instances, world.pods)
    found = [each["metadata"] for kind in kinds for each in await world.all(kind)]
    return {own["uid"]: own["resourceVersion"] for own in found}
