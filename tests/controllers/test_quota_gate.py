"""Instances beyond a quota wait behind their gate with a reason, and continue when there is room."""

from __future__ import annotations

from tarmac.api.compute.names import API_VERSION, LABEL_CITY_CODE, LABEL_INSTANCE_INDEX
from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import INSTANCES, RESOURCE_QUOTAS, RUNTIME_CLASSES
from tests.controllers.cities import Cities, condition, play, pod
from tests.controllers.planet import INSTANCE_MAKER, workload

NAMES = "quota"


def instance(ordinal: int, gates: tuple[str, ...] = ("Quota",)) -> JsonObject:
    """Two processors and two gibibytes in Dallas."""
    return {
        "apiVersion": API_VERSION,
        "kind": "Instance",
        "metadata": {
            "name": f"web-{ordinal}",
            "namespace": "default",
            "labels": {LABEL_CITY_CODE: "DFW", LABEL_INSTANCE_INDEX: str(ordinal)},
        },
        "spec": {
            **workload()["spec"]["template"]["spec"],
            "location": {"name": "dfw"},
            "controller": {"templateHash": "x", "schedulingGates": [{"name": gate} for gate in gates]},
        },
    }


async def make(cities: Cities, *ordinals: int, gates: tuple[str, ...] = ("Quota",)) -> None:
    for ordinal in ordinals:
        await cities.world.reliable(INSTANCE_MAKER).resource(INSTANCES).create(instance(ordinal, gates))
    await cities.wait(1)


async def limit(cities: Cities, **hard: str) -> None:
    limits = {name.replace("_", "."): amount for name, amount in hard.items()}
    metadata = {"name": "team", "namespace": "default"}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": limits}}
    await cities.user.resource(RESOURCE_QUOTAS).apply(quota, manager="test")
    await cities.wait(1)


async def held_back(cities: Cities) -> list[str]:
    found = (await cities.user.resource(INSTANCES).list("default")).items
    gated = [each for each in found if {"name": "Quota"} in (each["spec"]["controller"].get("schedulingGates") or [])]
    return sorted(each["metadata"]["name"] for each in gated)


def test_as_many_go_on_as_fit_lowest_ordinals_first_and_the_others_are_told() -> None:
    async def story(cities: Cities) -> None:
        await limit(cities, cpu="5")
        await make(cities, 3, 1, 0, 2)
        assert await held_back(cities) == ["web-2", "web-3"]
        said = condition(await cities.user.resource(INSTANCES).get("web-3", "default"), "QuotaGranted")
        assert (said["status"], said["reason"]) == ("False", "QuotaExhausted")
        assert said["message"] == "quota team is exhausted in DFW: cpu 2 wanted, 4 of 5 used"

    play(NAMES, story)


def test_room_comes_from_a_larger_quota_from_an_instance_that_goes_and_from_no_quota_at_all() -> None:
    async def story(cities: Cities) -> None:
        await limit(cities, requests_memory="4Gi")
        await make(cities, 0, 1, 2, 3, 4)
        assert await held_back(cities) == ["web-2", "web-3", "web-4"]
        await limit(cities, requests_memory="6Gi")
        assert await held_back(cities) == ["web-3", "web-4"]
        await cities.world.reliable(INSTANCE_MAKER).resource(INSTANCES).delete("web-0", "default")
        await cities.wait(1)
        assert await held_back(cities) == ["web-4"]
        await cities.user.resource(RESOURCE_QUOTAS).delete("team", "default")
        await cities.wait(1)
        assert await held_back(cities) == []

    play(NAMES, story)


def test_runtime_class_overhead_counts_against_the_quota() -> None:
    async def story(cities: Cities) -> None:
        overhead = {"podFixed": {"memory": "192Mi"}}
        costly = {"metadata": {"name": "gvisor"}, "handler": "gvisor", "overhead": overhead}
        await cities.user.resource(RUNTIME_CLASSES).apply(
            {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", **costly}, manager="test", force=True
        )
        await cities.wait(1)
        await limit(cities, memory="4Gi")
        await make(cities, 0, 1)
        assert await held_back(cities) == ["web-1"]
        await limit(cities, memory="4480Mi")
        assert await held_back(cities) == []

    play(NAMES, story)


def test_instances_and_pods_share_one_quota_and_other_gates_stay() -> None:
    async def story(cities: Cities) -> None:
        await limit(cities, pods="3")
        await cities.pods.create(pod("plain"))
        await make(cities, 0, 1, 2, gates=("Network", "Quota"))
        assert await held_back(cities) == ["web-2"]
        first = await cities.user.resource(INSTANCES).get("web-0", "default")
        assert first["spec"]["controller"]["schedulingGates"] == [{"name": "Network"}]
        await cities.pods.delete("plain", "default", grace=0)
        await cities.wait(1)
        assert await held_back(cities) == []

    play(NAMES, story)


def test_a_new_quota_does_not_revoke_admitted_instances() -> None:
    async def story(cities: Cities) -> None:
        await make(cities, 0, 1, gates=())
        await limit(cities, **{"count/instances.compute.datumapis.com": "1"})
        await make(cities, 2)
        assert await held_back(cities) == ["web-2"]

    play(NAMES, story)


def test_a_restarted_controller_gives_nothing_twice() -> None:
    async def story(cities: Cities) -> None:
        await limit(cities, cpu="8")
        for ordinal in range(12):
            await make(cities, ordinal)
            if ordinal % 3 == 0:
                await cities.stop()
                cities.start(NAMES)
        await cities.wait(2)
        assert len(await held_back(cities)) == 8

    play(NAMES, story)
