"""Disruption budgets: their status follows the pods, and evictions wait for it."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.names import LABEL_CITY_CODE, LABEL_WORKLOAD_NAME
from tarmac.api.schema import JsonObject
from tarmac.api.status import TooManyRequests
from tarmac.client.targets.untyped import BUDGETS, DEPLOYMENTS, EVENTS
from tests.controllers.cities import Cities, condition, play, pod
from tests.controllers.planet import WORKLOADS, workload

NAMES = "scheduler,node,disruption"
WITH_WORKLOADS = "disruption,namespace,volume,workload,deployment,instance,scheduler,network,node,location,quota"
WEB = {"app": "web"}


async def protect(cities: Cities, labels: dict[str, str], **spec: Any) -> None:
    body = {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": "b", "namespace": "default"},
        "spec": {"selector": {"matchLabels": labels}, **spec},
    }
    await cities.user.resource(BUDGETS).create(body)


async def status(cities: Cities) -> JsonObject:
    return (await cities.user.resource(BUDGETS).get("b", "default"))["status"]


async def says(cities: Cities, expected: int, desired: int, healthy: int, allowed: int) -> None:
    """Wait until the budget has these numbers."""
    wanted = (expected, desired, healthy, allowed)

    async def check() -> bool:
        found = await status(cities)
        fields = ("expectedPods", "desiredHealthy", "currentHealthy", "disruptionsAllowed")
        return tuple(found[field] for field in fields) == wanted

    try:
        await cities.until(check, 120)
    except AssertionError as error:
        raise AssertionError(f"{wanted} wanted, but {await status(cities)}") from error


async def evict(cities: Cities, name: str) -> None:
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name, "namespace": "default"}}
    await cities.pods.create(body, namespace="default", name=name, subresource="eviction")


async def refused(cities: Cities, name: str) -> str:
    """Return the reason why an eviction is rejected."""
    with pytest.raises(TooManyRequests) as error:
        await evict(cities, name)
    assert "would violate the pod's disruption budget" in str(error.value)
    return error.value.status()["details"]["causes"][0]["message"]


async def run(cities: Cities, *names: str) -> None:
    for name in names:
        await cities.pods.create(pod(name, labels=WEB))


def test_a_budget_over_plain_pods_follows_them_and_pays_for_evictions() -> None:
    async def story(cities: Cities) -> None:
        await protect(cities, WEB, minAvailable=1)
        await says(cities, 0, 1, 0, 0)
        await run(cities, "a", "b", "c")
        await says(cities, 3, 1, 3, 2)
        found = await cities.user.resource(BUDGETS).get("b", "default")
        assert condition(found, "DisruptionAllowed")["status"] == "True"
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"]
        await evict(cities, "a")
        await evict(cities, "b")
        await refused(cities, "c")
        await says(cities, 1, 1, 1, 0)
        assert not (await status(cities)).get("disruptedPods")
        assert await refused(cities, "c") == "The disruption budget b needs 1 healthy pods and has 1 currently"

    play(NAMES, story)


def test_a_changed_budget_is_counted_anew_before_it_is_spent() -> None:
    async def story(cities: Cities) -> None:
        await protect(cities, WEB, minAvailable=1)
        await run(cities, "a", "b")
        await says(cities, 2, 1, 2, 1)
        await cities.user.resource(BUDGETS).patch("b", {"spec": {"minAvailable": 2}}, "default")
        await says(cities, 2, 2, 2, 0)
        assert (await status(cities))["observedGeneration"] == 2

    play(NAMES, story)


def test_a_status_that_somebody_else_wrote_is_put_right() -> None:
    async def story(cities: Cities) -> None:
        await protect(cities, WEB, minAvailable=2)
        await run(cities, "a", "b")
        await says(cities, 2, 2, 2, 0)
        patch = {"status": {"disruptionsAllowed": 9, "currentHealthy": 11}}
        await cities.user.resource(BUDGETS).patch("b", patch, "default", subresource="status")
        await says(cities, 2, 2, 2, 0)

    play(NAMES, story)


def test_a_pod_that_is_not_ready_goes_by_the_policy_for_such_pods() -> None:
    async def story(cities: Cities) -> None:
        await protect(cities, WEB, minAvailable=2)
        await stand(cities, a=False, b=True)
        await says(cities, 2, 2, 1, 0)
        await refused(cities, "a")  # the application lacks pods: even an unready one may be needed
        await cities.user.resource(BUDGETS).patch(
            "b", {"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}}, "default"
        )
        await evict(cities, "a")
        await refused(cities, "b")

    play("disruption", story)


def test_a_pod_that_is_not_ready_goes_when_enough_others_are() -> None:
    async def story(cities: Cities) -> None:
        await protect(cities, WEB, minAvailable=2)
        await stand(cities, a=False, b=True, c=True)
        await says(cities, 3, 2, 2, 0)
        await evict(cities, "a")
        await refused(cities, "b")

    play("disruption", story)


async def stand(cities: Cities, **ready: bool) -> None:
    """Create pods on a node without an agent, each ready or not."""
    for name, holds in ready.items():
        await cities.pods.create(pod(name, labels=WEB, nodeName="still"))
        said = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(holds)}]}
        await cities.pods.patch(name, {"status": said}, "default", subresource="status")


def test_an_eviction_that_never_became_a_deletion_is_taken_back() -> None:
    async def story(cities: Cities) -> None:
        await protect(cities, WEB, minAvailable=1)
        await run(cities, "a", "b")
        await says(cities, 2, 1, 2, 1)
        before = (await cities.user.resource(BUDGETS).get("b", "default"))["status"]["conditions"][0]
        stamp = before["lastTransitionTime"]
        note = {"status": {"disruptionsAllowed": 0, "disruptedPods": {"a": stamp}}}  # then the server was killed
        await cities.user.resource(BUDGETS).patch("b", note, "default", subresource="status")
        await says(cities, 2, 1, 1, 0)
        await cities.wait(125)
        await says(cities, 2, 1, 2, 1)
        events = (await cities.user.resource(EVENTS).list("default")).items
        told = [each for each in events if each["reason"] == "NotDeleted"]
        assert [each["message"] for each in told] == ["Pod was expected by PDB default/b to be deleted but it wasn't"]

    play(NAMES, story)


def test_a_pod_that_takes_the_name_of_an_evicted_one_at_once_is_not_taken_for_it() -> None:
    async def story(cities: Cities) -> None:
        await protect(cities, WEB, minAvailable=1)
        await stand(cities, a=True, b=True)
        await says(cities, 2, 1, 2, 1)
        await cities.wait(3)
        await evict(cities, "a")
        await cities.pods.delete("a", "default", grace=0)  # deleted and created again before the controller has counted
        await stand(cities, a=True)
        await cities.wait(10)
        found = await status(cities)
        assert (found["currentHealthy"], found["disruptionsAllowed"]) == (2, 1)
        assert not found.get("disruptedPods")

    play("disruption", story)


def test_a_share_of_pods_that_something_unknown_controls_allows_nothing_and_says_why() -> None:
    async def story(cities: Cities) -> None:
        await protect(cities, WEB, maxUnavailable=1)
        owner = {"apiVersion": "example.com/v1", "kind": "Thing", "name": "x", "uid": "u", "controller": True}
        made = pod("a", labels=WEB)
        made["metadata"]["ownerReferences"] = [owner]
        await cities.pods.create(made)

        async def failed() -> bool:
            found = await cities.user.resource(BUDGETS).get("b", "default")
            return condition(found, "DisruptionAllowed").get("reason") == "SyncFailed"

        await cities.until(failed)
        found = await cities.user.resource(BUDGETS).get("b", "default")
        assert condition(found, "DisruptionAllowed")["message"] == 'found no controllers for pod "a"'
        assert found["status"]["disruptionsAllowed"] == 0

    play("scheduler,node,disruption,-garbage", story)


def test_a_budget_over_a_workload_counts_every_city() -> None:
    async def story(cities: Cities) -> None:
        await cities.wait(5)
        await protect(cities, {LABEL_WORKLOAD_NAME: "web"}, maxUnavailable="25%")
        await cities.user.resource(WORKLOADS).create(workload(cities=("DFW", "LHR"), replicas=2, policy="Parallel"))
        await says(cities, 4, 3, 4, 1)
        (first, *_) = sorted(each["metadata"]["name"] for each in await of_city(cities, "DFW"))
        (other, *_) = sorted(each["metadata"]["name"] for each in await of_city(cities, "LHR"))
        before = (await cities.pods.get(first, "default"))["metadata"]["uid"]
        await cordon(cities, True)  # so that no pod replaces the evicted one
        await evict(cities, first)
        await refused(cities, other)  # a disruption in one city counts in all
        await cordon(cities, False)
        await says(cities, 4, 3, 4, 1)
        assert (await cities.pods.get(first, "default"))["metadata"]["uid"] != before
        await evict(cities, other)

    play(WITH_WORKLOADS, story)


def test_a_city_without_pods_is_missing_from_the_budget_and_one_city_can_have_its_own() -> None:
    async def story(cities: Cities) -> None:
        await cities.wait(5)
        await cities.user.resource(WORKLOADS).create(workload(cities=("DFW", "LHR"), replicas=2, policy="Parallel"))
        await protect(cities, WEB, minAvailable="50%")
        await says(cities, 4, 2, 4, 2)
        await cordon(cities, True)
        for each in await of_city(cities, "LHR"):
            await cities.pods.delete(each["metadata"]["name"], "default")
        await says(cities, 4, 2, 2, 0)
        selector = {"spec": {"selector": {"matchLabels": {**WEB, LABEL_CITY_CODE: "DFW"}}}}
        await cities.user.resource(BUDGETS).patch("b", selector, "default")
        await says(cities, 2, 1, 2, 1)
        await cordon(cities, False)
        (dfw,) = [
            each["metadata"]["name"]
            for each in (await cities.user.resource(DEPLOYMENTS).list("default")).items
            if each["spec"]["cityCode"] == "DFW"
        ]
        await cities.user.resource(DEPLOYMENTS).patch(dfw, {"spec": {"replicas": 4}}, "default", subresource="scale")
        await says(cities, 4, 2, 4, 2)

    play(WITH_WORKLOADS, story)


async def cordon(cities: Cities, closed: bool) -> None:
    """Make all nodes unschedulable, or schedulable."""
    for node in (await cities.nodes.list()).items:
        await cities.nodes.patch(node["metadata"]["name"], {"spec": {"unschedulable": closed or None}})


async def of_city(cities: Cities, city: str) -> list[JsonObject]:
    return (await cities.pods.list("default", labels=f"{LABEL_CITY_CODE}={city}")).items
