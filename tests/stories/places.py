"""Placement of instances: cities that come and go, and locations selected by an expression."""

from __future__ import annotations

from tests.stories.manifests import placement, workload
from tests.stories.telling import story
from tests.stories.world import World, condition


@story
async def city_without_location_then_added(world: World) -> None:
    """A city that is known but has no ready Location waits, and starts by itself when it has one."""
    await world.open("DFW")
    await world.announce("SEA")
    await world.apply(workload(placement("DFW", "SEA", replicas=1)))
    why = await world.stuck("NoCandidateLocations")
    assert why.sentence.endswith("in SEA: No Location in SEA is ready.")
    assert why.change == "Add a node to Location sea: one with the label topology.datum.net/location=sea."
    await world.until(lambda: _serves(world), "DFW serves meanwhile")

    await world.build("SEA", nodes=1)
    await world.settled(2)
    assert len(await world.instances_in("SEA")) == 1


@story
async def placement_by_expression(world: World) -> None:
    """An expression selects the existing locations, and later the new ones, too."""
    await world.open("DFW", "LHR")
    chosen = placement(replicas=1, scope="cityCode", selector={"constraint": "region in ['EU', 'OC']"})
    await world.apply(workload(chosen))
    await world.settled(1)
    assert [each["spec"]["cityCode"] for each in await world.all(world.deployments)] == ["LHR"]

    await world.open("SYD")
    await world.settled(2)
    assert {each["spec"]["cityCode"] for each in await world.all(world.deployments)} == {"LHR", "SYD"}


async def _serves(world: World) -> bool:
    return condition(await world.workload(), "Available").get("status") == "True"
