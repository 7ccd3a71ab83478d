"""A quota holds back instances that do not fit, reports it in their status, and releases them when it is lifted."""

from __future__ import annotations

from tests.stories.manifests import placement, workload
from tests.stories.telling import story
from tests.stories.world import World, condition


@story
async def quota_hit_and_lifted(world: World) -> None:
    """Of five instances three fit; the other two start by themselves once the quota allows five."""
    await world.open("DFW")
    await world.limit({"pods": "3"})
    await world.apply(workload(placement("DFW", replicas=5, policy="Parallel")))
    await world.until(lambda: _ready(world, 3), "three instances are ready")
    why = await world.stuck("QuotaExhausted")
    assert "2 of 5 instances: quota limit is exhausted in DFW: pods 1 wanted, 3 of 3 used" in why.sentence
    assert why.change == "Raise pods of ResourceQuota limit to 5, or scale something else down."
    progress = condition(await world.workload(), "Progressing")
    assert (progress["status"], progress["reason"]) == ("False", "QuotaExhausted")
    assert condition(await world.workload(), "Available")["status"] == "True"
    assert len(await world.all(world.pods)) == 3

    await world.limit({"pods": "5"})
    await world.settled(5)


async def _ready(world: World, count: int) -> bool:
    return (await world.status()).get("readyReplicas") == count
