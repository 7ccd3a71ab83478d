"""A budget over pods of a Deployment, StatefulSet or ReplicationController counts by the scale of their owner."""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import (
    BUDGETS,
    DAEMON_SETS,
    KUBERNETES_DEPLOYMENTS,
    REPLICA_SETS,
    REPLICATION_CONTROLLERS,
    STATEFUL_SETS,
)
from tarmac.controllers.disruption.scales import MAX_OWNERS
from tests.controllers.cities import Cities, condition, play, pod
from tests.controllers.test_disruption_budgets import NAMES, WEB, evict, protect, refused, says
from tests.controllers.test_node_decommission import NODE, forgotten, leaves

TEMPLATE = {"metadata": {"labels": WEB}, "spec": {"containers": [{"name": "c", "image": "example.com/app:1"}]}}


async def make(cities: Cities, target: Any, name: str, owner: JsonObject | None = None, **spec: Any) -> JsonObject:
    selector: JsonObject = {"matchLabels": WEB} if target.group else WEB
    body = {
        "apiVersion": "apps/v1" if target.group else "v1",
        "kind": target.kind,
        "metadata": {"name": name, "namespace": "default", **owned(owner)},
        "spec": {"selector": selector, "template": TEMPLATE, **spec},
    }
    return await cities.user.resource(target).create(body)


def owned(owner: JsonObject | None) -> JsonObject:
    if owner is None:
        return {}
    own = owner["metadata"]
    reference = {"apiVersion": owner["apiVersion"], "kind": owner["kind"], "name": own["name"], "uid": own["uid"]}
    return {"ownerReferences": [{**reference, "controller": True}]}


async def run(cities: Cities, owner: JsonObject, *names: str, place: str = "", **spec: Any) -> None:
    for name in names:
        made = pod(name, place=place, labels=WEB, **spec)
        await cities.pods.create({**made, "metadata": {**made["metadata"], **owned(owner)}})


def test_pods_of_a_deployment_count_by_its_scale_and_not_by_its_replica_sets() -> None:
    async def story(cities: Cities) -> None:
        web = await make(cities, KUBERNETES_DEPLOYMENTS, "web", replicas=3)
        for number in (1, 2):  # in the middle of a rollout
            await run(cities, await make(cities, REPLICA_SETS, f"web-{number}", web, replicas=number), f"w{number}")
        await protect(cities, WEB, maxUnavailable=1)
        await says(cities, 3, 2, 2, 0)
        await refused(cities, "w1")
        await run(cities, (await cities.user.resource(REPLICA_SETS).get("web-2", "default")), "w3")
        await says(cities, 3, 2, 3, 1)
        await evict(cities, "w1")
        await says(cities, 3, 2, 2, 0)

    play(NAMES, story)


def test_pods_of_a_stateful_set_and_of_a_replication_controller_count_together() -> None:
    async def story(cities: Cities) -> None:
        one = await make(cities, STATEFUL_SETS, "one", replicas=2)
        other = await make(cities, REPLICATION_CONTROLLERS, "other", replicas=2)
        await run(cities, one, "one-0", "one-1")
        await run(cities, other, "other-a", "other-b")
        await protect(cities, WEB, minAvailable="50%")
        await says(cities, 4, 2, 4, 2)

    play(NAMES, story)


def test_a_replica_set_of_its_own_counts_by_its_own_scale() -> None:
    async def story(cities: Cities) -> None:
        await run(cities, await make(cities, REPLICA_SETS, "web", replicas=2), "a", "b")
        await protect(cities, WEB, maxUnavailable=1)
        await says(cities, 2, 1, 2, 1)

    play(NAMES, story)


def test_an_owner_without_a_scale_and_one_that_was_made_again_allow_nothing() -> None:
    async def story(cities: Cities) -> None:
        known = await make(cities, REPLICA_SETS, "web", replicas=2)
        gone = {**known, "metadata": {**known["metadata"], "uid": "of-the-last-one"}}
        await run(cities, gone, "a")
        await protect(cities, WEB, maxUnavailable=1)
        await failed(cities, 'found no controllers for pod "a"')

    play(NAMES, story)


def test_pods_of_too_many_owners_are_not_counted() -> None:
    async def story(cities: Cities) -> None:
        for number in range(MAX_OWNERS + 1):
            await make(cities, REPLICA_SETS, f"r{number}", replicas=1)
            owner = await cities.user.resource(REPLICA_SETS).get(f"r{number}", "default")
            await run(cities, owner, f"p{number}", place="nowhere")
        await protect(cities, WEB, maxUnavailable=1)
        await failed(cities, f"more than {MAX_OWNERS} controllers have pods that it selects; use narrower selectors")

    play(NAMES, story)


async def failed(cities: Cities, message: str) -> None:
    async def check() -> bool:
        found = condition(await cities.user.resource(BUDGETS).get("b", "default"), "DisruptionAllowed")
        return (found.get("reason"), found.get("message")) == ("SyncFailed", message)

    await cities.until(check, 60)


def test_a_node_that_leaves_waits_for_no_pod_of_a_daemon_set() -> None:
    async def story(cities: Cities) -> None:
        daemon = await make(cities, DAEMON_SETS, "d")
        await run(cities, daemon, "d-1", nodeName=NODE)
        await protect(cities, WEB, minAvailable=1)  # an eviction would be rejected for an hour
        await says(cities, 1, 1, 1, 0)
        await leaves(cities, 3600)
        await cities.until(lambda: forgotten(cities), 60)

    play("scheduler,node,volume,disruption", story)
