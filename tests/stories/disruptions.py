"""A node is drained while a disruption budget protects what runs there, as `kubectl drain` does it."""

from __future__ import annotations

from tarmac.api.compute.names import LABEL_WORKLOAD_NAME
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound, TooManyRequests
from tarmac.client.targets import dynamic
from tests.stories.manifests import placement, workload
from tests.stories.telling import story
from tests.stories.world import World, condition

BUDGETS = dynamic("policy/v1", "poddisruptionbudgets", "PodDisruptionBudget")
LEAST = 5  # of six


@story
async def node_drained_under_a_budget(world: World) -> None:
    """Its instances move one after the other; never more are away than the budget allows, over all cities."""
    await world.open("DFW", "LHR", nodes=2)
    await world.apply(workload(placement("DFW", "LHR", replicas=3, policy="Parallel")))
    await world.settled(6)
    await _protect(world, maxUnavailable=1)
    await world.until(lambda: _allows(world, 1), "the budget allows one disruption")
    node = (await world.all(world.pods))[0]["spec"]["nodeName"]

    await world.nodes.patch(node, {"spec": {"unschedulable": True}})
    await world.until(lambda: _drained(world, node), f"{node} is drained")
    await world.settled(6)
    assert all(each["spec"]["nodeName"] != node for each in await world.all(world.pods))
    await world.until(lambda: _allows(world, 1), "the budget allows one disruption again")


@story
async def node_not_drained_without_room(world: World) -> None:
    """A budget that every instance is needed for keeps them all, and says so."""
    await world.open("DFW", nodes=1)
    await world.apply(workload(placement("DFW", replicas=2)))
    await world.settled(2)
    await _protect(world, minAvailable="100%")
    await world.until(lambda: _counted(world, 2), "the budget has counted")
    budget = await world.client.resource(BUDGETS).get("web", world.namespace)
    assert condition(budget, "DisruptionAllowed")["reason"] == "InsufficientPods"
    for each in await world.all(world.pods):
        refusal = await _evict(world, each["metadata"]["name"])
        assert refusal == "The disruption budget web needs 2 healthy pods and has 2 currently"
    await world.settled(2)


async def _protect(world: World, **spec: object) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "web", "namespace": world.namespace},
        "spec": {"selector": {"matchLabels": {LABEL_WORKLOAD_NAME: "web"}}, **spec},
    }
    await world.client.resource(BUDGETS).create(body)


async def _status(world: World) -> JsonObject:
    return (await world.client.resource(BUDGETS).get("web", world.namespace)).get("status") or {}


async def _allows(world: World, count: int) -> bool:
    return (await _status(world)).get("disruptionsAllowed") == count


async def _counted(world: World, healthy: int) -> bool:
    return (await _status(world)).get("currentHealthy") == healthy


async def _drained(world: World, node: str) -> bool:
    """One round of `kubectl drain`: evict what is on the node, and be back for what was refused."""
    pods = await world.all(world.pods)
    staying = [each for each in pods if "deletionTimestamp" not in each["metadata"]]
    assert sum(condition(each, "Ready").get("status") == "True" for each in staying) >= LEAST
    on_it = [each["metadata"] for each in pods if each["spec"].get("nodeName") == node]
    for each in on_it:
        if "deletionTimestamp" not in each:
            await _evict(world, each["name"])
    return not on_it


async def _evict(world: World, name: str) -> str:
    """Evict a pod; why not, if it is refused."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": world.namespace}}
    try:
        await world.pods.create(body, namespace=world.namespace, name=name, subresource="eviction")
    except TooManyRequests as refused:
        return refused.status()["details"]["causes"][0]["message"]
    except NotFound:
        pass
    return ""
