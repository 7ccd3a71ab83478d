"""Nodes are drained under a disruption budget, as `kubectl drain` does, and important pods come to full cities."""

from __future__ import annotations

from tarmac.api.compute.names import LABEL_WORKLOAD_NAME
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.api.status import Forbidden, NotFound, TooManyRequests
from tarmac.client.targets.target import dynamic
from tarmac.client.targets.untyped import BUDGETS
from tests.stories.manifests import placement, workload
from tests.stories.telling import story
from tests.stories.world import World, condition

PRIORITIES = dynamic("scheduling.k8s.io/v1", "priorityclasses", "PriorityClass", namespaced=False)
MIN_READY = 5  # of six


@story
async def node_drained_under_a_budget(world: World) -> None:
    """The instances move one after the other; never more are missing than the budget allows, over all cities."""
    await world.open("DFW", "LHR", nodes=2)
    await world.apply(workload(placement("DFW", "LHR", replicas=3, policy="Parallel")))
    await world.settled(6)
    await _protect(world, maxUnavailable=1)
    await world.until(lambda: _allows(world, 1), "the budget allows one disruption")
    node = (await world.all(world.pods))[0]["spec"]["nodeName"]

    await world.nodes.patch(node, {"spec": {"unschedulable": True}})
    await world.until(lambda: _drained(world, node), f"{node} is drained")
    await world.until(lambda: _ready_elsewhere(world, node, 6), "all six run elsewhere")
    await world.settled(6)
    await world.until(lambda: _allows(world, 1), "the budget allows one disruption again")


@story
async def node_not_drained_without_room(world: World) -> None:
    """A budget that needs every instance keeps them all, and reports it."""
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


@story
async def important_pod_on_a_full_planet(world: World) -> None:
    """One instance ends for it, and only in its city; it comes back when there is room again."""
    await world.open("DFW", "LHR", nodes=1)
    room = int((await world.nodes.get("dfw-0"))["status"]["allocatable"]["cpu"])
    full = placement("DFW", replicas=room, policy="Parallel")
    await world.apply(workload(full, placement("LHR", replicas=2, name="elsewhere")))
    await world.settled(room + 2)
    before = {each["metadata"]["name"]: each["metadata"]["uid"] for each in await world.all(world.pods)}
    await world.client.resource(PRIORITIES).create({"metadata": {"name": "story-vital"}, "value": 1000})
    try:
        # Admission in kube-apiserver reads classes from a cache, which may not have the new one yet.
        await world.until(lambda: _is_admitted(world, _vital(world.namespace)), "the important pod is admitted")
        await world.until(lambda: _is_running(world, "vital"), "the important pod runs")
        after = {each["metadata"]["name"]: each["metadata"]["uid"] for each in await world.all(world.pods)}
        changed = [name for name, uid in before.items() if after.get(name) != uid]
        assert len(changed) == 1
        assert changed[0].startswith("web-dfw-")
        await world.until(lambda: _lacks_room(world), "the instance that ended waits for room")
    finally:
        await world.pods.delete("vital", world.namespace)
        await world.client.resource(PRIORITIES).delete("story-vital")
    await world.settled(room + 2)


def _vital(namespace: str) -> JsonObject:
    container = {"name": "c", "image": "example.com/app:1", "resources": {"requests": {"cpu": "1"}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "vital", "namespace": namespace},
        "spec": {
            "priorityClassName": "story-vital",
            "schedulerName": "tarmac",
            "nodeSelector": {LABEL_LOCATION: "dfw"},
            "containers": [container],
        },
    }


async def _is_admitted(world: World, pod: JsonObject) -> bool:
    try:
        await world.pods.create(pod)
    except Forbidden:
        return False
    return True


async def _lacks_room(world: World) -> bool:
    return condition(await world.workload(), "Progressing").get("reason") == "InsufficientCapacity"


async def _is_running(world: World, name: str) -> bool:
    return ((await world.pods.get(name, world.namespace)).get("status") or {}).get("phase") == "Running"


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
    """One round of `kubectl drain`: evict the pods of the node; return true when none is left."""
    pods = await world.all(world.pods)
    staying = [each for each in pods if "deletionTimestamp" not in each["metadata"]]
    assert sum(condition(each, "Ready").get("status") == "True" for each in staying) >= MIN_READY
    on_it = [each["metadata"] for each in pods if each["spec"].get("nodeName") == node]
    for each in on_it:
        if "deletionTimestamp" not in each:
            await _evict(world, each["name"])
    return not on_it


async def _ready_elsewhere(world: World, node: str, count: int) -> bool:
    pods = [each for each in await world.all(world.pods) if each["spec"].get("nodeName") != node]
    return sum(condition(each, "Ready").get("status") == "True" for each in pods) == count


async def _evict(world: World, name: str) -> str:
    """Evict a pod; return the reason if it is rejected."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": world.namespace}}
    try:
        await world.pods.create(body, namespace=world.namespace, name=name, subresource="eviction")
    except TooManyRequests as refused:
        return refused.status()["details"]["causes"][0]["message"]
    except NotFound:
        pass
    return ""
