"""Deleting a Workload deletes all its children, and no other object."""

from __future__ import annotations

from tarmac.api.networking.names import API_VERSION
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import NETWORKS
from tests.stories.manifests import placement, workload
from tests.stories.telling import story
from tests.stories.world import World

BINDINGS = dynamic(API_VERSION, "networkbindings", "NetworkBinding")


@story
async def deletion(world: World) -> None:
    """The Workload stays until the last of its pods has ended; its neighbour is not affected."""
    await world.open("DFW", "LHR")
    await world.apply(workload(placement("DFW", "LHR", replicas=2)))
    await world.apply(workload(placement("DFW", replicas=1), name="other"))
    await world.settled(4)
    await world.settled(1, "other")
    kept = {each["metadata"]["uid"] for each in await world.all(world.pods, app="other")}

    await world.workloads.delete("web", world.namespace)

    async def gone() -> bool:
        workload_gone = await world.gone(world.workloads, "web")
        if workload_gone:
            assert not await world.all(world.instances, app="web"), "the Workload went before its instances"
        return workload_gone and not await world.all(world.pods, app="web")

    await world.until(gone, "web and all its pods are gone")
    assert {each["metadata"]["uid"] for each in await world.all(world.pods, app="other")} == kept
    bindings = await world.all(world.client.resource(BINDINGS))
    assert len(bindings) == 1, "only the neighbour's network binding is left"
    assert len(await world.all(world.client.resource(NETWORKS))) == 1
