"""Losses of nodes and cities, and their return."""

from __future__ import annotations

from tarmac.client.targets.untyped import VOLUME_CLAIMS
from tests.stories.manifests import MACHINE, placement, workload
from tests.stories.telling import story
from tests.stories.world import World


@story
async def node_lost(world: World) -> None:
    """The instance is replaced on another node, once, under the same name, and no other one is touched.

    A machine boots from a disk of that node: it waits for it until an administrator gives the disk up.
    """
    await world.open("DFW", nodes=3)
    await world.apply(workload(placement("DFW", replicas=2)))
    await world.settled(2)
    first, second = await world.instances_in("DFW")
    lost, kept = await _node_of(world, first), await _node_of(world, second)
    assert lost != kept, "instances of one city are spread over its nodes"

    world.lose_node(lost)
    if world.sort is MACHINE:
        await _give_up_disk(world, first["metadata"]["name"])
    await world.until(lambda: _is_elsewhere(world, first["metadata"]["name"], lost), "the instance has another node")
    await world.settled(2)
    still = (await world.instances_in("DFW"))[1]
    assert still["metadata"]["uid"] == second["metadata"]["uid"]
    assert await _node_of(world, still) == kept
    assert len(await world.all(world.pods)) == 2


@story
async def city_lost_and_found(world: World) -> None:
    """With a policy to move, as many instances start in another city, and end when the lost one is back."""
    await world.open("DFW", "LHR", "SEA")
    moving = {"policy": "Move", "cities": ["SEA"], "after": "1s"}
    await world.apply(workload(placement("DFW", "LHR", replicas=1, onCityLoss=moving)))
    await world.settled(2)
    (before,) = await world.instances_in("LHR")

    await world.lose_city("LHR")
    await world.until(lambda: _ready_in(world, "SEA", 1), "an instance runs in SEA instead")
    await world.until(lambda: _counted(world, "2/2"), "what has moved is wanted once")
    (meanwhile,) = await world.instances_in("LHR")
    assert meanwhile["metadata"]["uid"] == before["metadata"]["uid"], "a partitioned city is not a dead one"

    await world.find_city("LHR")
    await world.until(lambda: _ready_in(world, "LHR", 1), "the instance in LHR is ready again")
    await world.until(lambda: _ready_in(world, "SEA", 0), "SEA is not needed any more")
    await world.settled(2)
    (after,) = await world.instances_in("LHR")
    assert after["metadata"]["uid"] == before["metadata"]["uid"]


@story
async def city_lost_and_waited_for(world: World) -> None:
    """Without a policy instances stay where they are; the status reports that their city is lost."""
    await world.open("DFW", "LHR")
    await world.apply(workload(placement("DFW", "LHR", replicas=1)))
    await world.settled(2)
    before = {each["metadata"]["uid"] for each in await world.all(world.instances)}

    await world.lose_city("LHR")
    why = await world.stuck("CityLost")
    assert why.sentence.endswith("in LHR: LHR is lost; its instances wait for it.")
    assert why.change == "Set onCityLoss.policy to Move and name cities to start the instances elsewhere."
    await world.find_city("LHR")
    await world.settled(2)
    assert {each["metadata"]["uid"] for each in await world.all(world.instances)} == before


async def _give_up_disk(world: World, instance: str) -> None:
    why, claim = await world.stuck("DiskOnLostNode"), f"{instance}-boot"
    assert f"back, or delete claim {claim}" in why.change
    await world.client.resource(VOLUME_CLAIMS).delete(claim, world.namespace)


async def _counted(world: World, ready: str) -> bool:
    return (await world.workloads.get("web", world.namespace))["status"]["summary"]["ready"] == ready


async def _node_of(world: World, instance: dict[str, dict[str, str]]) -> str:
    pod = await world.pods.get(instance["metadata"]["name"], world.namespace)
    return pod["spec"].get("nodeName", "")


async def _is_elsewhere(world: World, name: str, lost: str) -> bool:
    found = {each["metadata"]["name"]: each["spec"].get("nodeName", "") for each in await world.all(world.pods)}
    return found.get(name, lost) not in ("", lost)


async def _ready_in(world: World, city: str, count: int) -> bool:
    found = await world.all(world.deployments, **{"compute.datumapis.com/city-code": city})
    return sum((each.get("status") or {}).get("readyReplicas", 0) for each in found) == count
