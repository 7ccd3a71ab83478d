"""The number of instances follows the manifest."""

from __future__ import annotations

from tarmac.api.schema import JsonObject
from tests.stories.manifests import placement, workload
from tests.stories.telling import story
from tests.stories.world import World, condition


@story
async def scale_by_editing(world: World) -> None:
    """Three instances instead of two in each city, then one: the highest ordinals start last and end first."""
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
    """No object below the Workload is written."""
    await world.open("DFW")
    await world.apply(workload(placement("DFW", replicas=2)))
    await world.settled(2)
    before = await _versions(world)
    await world.apply(workload(placement("DFW", replicas=2)))
    await world.edit("web", lambda _spec: None)
    await world.client.clock.sleep(1)
    assert await _versions(world) == before


@story
async def autoscale_by_a_metric_of_each_city(world: World) -> None:
    """Each city follows its own load, up and down, between the bounds; without readings the size stays."""
    await world.open("DFW", "LHR")
    world.load.update(DFW=100, LHR=100)
    metric = {"name": "requests_per_second", "selector": {"matchLabels": {"city": "{{ context.locality.cityCode }}"}}}
    settings = {
        "maxReplicas": 4,
        "metrics": [{"external": {"metric": metric, "target": {"averageValue": "100"}}}],
        "behavior": {"scaleDown": {"stabilizationWindowSeconds": 0}},
    }
    await world.apply(workload(placement("DFW", "LHR", replicas=1, scaleSettings=settings)))
    await world.settled(2)

    world.load["DFW"] = 290
    await world.settled(4)
    assert len(await world.instances_in("DFW")) == 3
    assert len(await world.instances_in("LHR")) == 1

    world.load["DFW"] = 5000
    await world.settled(5)
    await world.until(
        lambda: _says(world, "AutoscalingLimited", "TooManyReplicas"), "the status says that it is capped"
    )

    world.load.clear()
    await world.until(lambda: _says(world, "AutoscalingReady", "MetricsUnavailable"), "it says that nothing is heard")
    await world.settled(5)

    world.load.update(DFW=50, LHR=190)
    await world.settled(3)
    assert len(await world.instances_in("LHR")) == 2


async def _says(world: World, kind: str, reason: str) -> bool:
    return condition(await world.deployment_in("DFW"), kind).get("reason") == reason


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
