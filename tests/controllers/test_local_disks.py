"""Local disks are created on the scheduler's node, stay there, grow, and are deleted with their claims."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.compute.names import DISK_FINALIZER, LABEL_DISK_NODE
from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.client.targets.untyped import VOLUME_CLAIMS, VOLUMES
from tarmac.decide.scheduling.diskconstraints import SELECTED_NODE
from tests.controllers.cities import Cities, condition, play, pod

NAMES = "volume"


def claim(**annotations: str) -> JsonObject:
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": "data", "namespace": "default", "annotations": annotations},
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "storageClassName": "tarmac-local",
            "resources": {"requests": {"storage": "10Gi"}},
        },
    }


async def made(cities: Cities, **annotations: str) -> JsonObject:
    await cities.user.resource(VOLUME_CLAIMS).create(claim(**annotations))
    await cities.wait(2)
    return await cities.user.resource(VOLUME_CLAIMS).get("data", "default")


def test_a_claim_gets_its_disk_on_the_node_that_was_chosen() -> None:
    async def story(cities: Cities) -> None:
        bound = await made(cities, **{SELECTED_NODE: "dfw-1"})
        assert bound["status"] == {
            "phase": "Bound", "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
        }  # fmt: skip
        volume = await cities.user.resource(VOLUMES).get(bound["spec"]["volumeName"])
        name = volume["metadata"]["name"]
        assert volume["status"]["phase"] == "Bound"
        assert volume["spec"]["local"]["path"] == f"disks/{name}.img"
        assert volume["metadata"]["labels"] == {LABEL_DISK_NODE: "dfw-1"}
        terms: list[dict[str, Any]] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms[0]["matchFields"][0]["values"] == ["dfw-1"]

    play(NAMES, story)


def test_a_claim_without_a_node_or_of_another_class_waits() -> None:
    async def story(cities: Cities) -> None:
        assert (await made(cities))["status"]["phase"] == "Pending"
        other = claim(**{SELECTED_NODE: "dfw-1"})
        other["metadata"]["name"], other["spec"]["storageClassName"] = "other", "fast"
        await cities.user.resource(VOLUME_CLAIMS).create(other)
        await cities.wait(2)
        assert (await cities.user.resource(VOLUME_CLAIMS).get("other", "default"))["status"]["phase"] == "Pending"

    play(NAMES, story)


def test_a_node_that_does_not_exist_is_chosen_anew() -> None:
    async def story(cities: Cities) -> None:
        found = await made(cities, **{SELECTED_NODE: "nowhere"})
        assert SELECTED_NODE not in (found["metadata"].get("annotations") or {})

    play(NAMES, story)


def test_a_disk_goes_with_its_claim_once_its_node_has_removed_it() -> None:
    async def story(cities: Cities) -> None:
        bound = await made(cities, **{SELECTED_NODE: "dfw-0"})
        claims, volumes = cities.user.resource(VOLUME_CLAIMS), cities.user.resource(VOLUMES)
        cities.fleet.cut("dfw-0")
        await claims.delete("data", "default")
        await cities.wait(5)
        assert await cities.gone(claims, "data", "default")
        name = bound["spec"]["volumeName"]
        left = await volumes.get(name)
        assert left["metadata"]["finalizers"] == [DISK_FINALIZER]
        assert left["status"]["phase"] == "Released"
        cities.fleet.heal("dfw-0")
        await cities.wait(10)
        with pytest.raises(NotFound):
            await volumes.get(name)

    play(NAMES, story)


def test_a_node_that_is_removed_takes_its_disks_along() -> None:
    async def story(cities: Cities) -> None:
        bound = await made(cities, **{SELECTED_NODE: "dfw-0"})
        cities.fleet.cut("dfw-0")
        await cities.user.resource(VOLUME_CLAIMS).delete("data", "default")
        await cities.wait(5)
        await cities.nodes.delete("dfw-0")
        await cities.wait(5)
        assert await cities.gone(cities.user.resource(VOLUMES), bound["spec"]["volumeName"])

    play(NAMES, story)


def test_a_pod_waits_for_the_lost_node_that_has_its_disk() -> None:
    async def story(cities: Cities) -> None:
        await cities.user.resource(VOLUME_CLAIMS).create(claim())
        disk = [{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}]
        await cities.pods.create(pod("first", place="dfw", volumes=disk))
        await cities.wait(10)
        (home,) = await cities.nodes_of("first")
        assert (await cities.user.resource(VOLUME_CLAIMS).get("data", "default"))["status"]["phase"] == "Bound"
        cities.fleet.die(home)
        await cities.wait(60)
        await cities.pods.delete("first", "default", grace=0)
        await cities.pods.create(pod("second", place="dfw", volumes=disk))
        await cities.wait(5)
        said = condition(await cities.pods.get("second", "default"), "PodScheduled")
        assert said["message"] == "0/3 nodes at dfw: 2 disk on a lost node, 1 not ready."
        why = await cities.user.get_json("/api/v1/namespaces/default/pods/second/why")
        assert why["verdicts"][0]["reason"] == "DiskOnLostNode"
        assert f"is on {home}, which is lost" in str(why["verdicts"])
        cities.fleet.revive(home)
        await cities.wait(60)
        assert await cities.nodes_of("second") == [home]

    play("volume,scheduler,node", story)


def test_a_disk_grows_when_its_claim_asks_for_more() -> None:
    async def story(cities: Cities) -> None:
        await made(cities, **{SELECTED_NODE: "dfw-0"})
        claims = cities.user.resource(VOLUME_CLAIMS)
        cities.fleet.cut("dfw-0")
        await claims.patch("data", {"spec": {"resources": {"requests": {"storage": "20Gi"}}}}, "default")
        await cities.wait(2)
        waiting = (await claims.get("data", "default"))["status"]
        assert waiting["capacity"] == {"storage": "10Gi"}
        assert [each["type"] for each in waiting["conditions"]] == ["FileSystemResizePending"]
        cities.fleet.heal("dfw-0")
        await cities.wait(10)
        grown = (await claims.get("data", "default"))["status"]
        assert grown["capacity"] == {"storage": "20Gi"}
        assert not grown.get("conditions")

    play(NAMES, story)


def test_a_volume_that_was_freed_is_kept_for_another_claim() -> None:
    async def story(cities: Cities) -> None:
        name = (await made(cities, **{SELECTED_NODE: "dfw-0"}))["spec"]["volumeName"]
        volumes = cities.user.resource(VOLUMES)
        await volumes.patch(name, {"spec": {"persistentVolumeReclaimPolicy": "Retain"}})
        await cities.user.resource(VOLUME_CLAIMS).delete("data", "default")
        await cities.wait(5)
        assert (await volumes.get(name))["status"]["phase"] == "Released"
        await volumes.patch(name, {"spec": {"claimRef": None, "persistentVolumeReclaimPolicy": "Delete"}})
        await cities.wait(5)
        assert "deletionTimestamp" not in (await volumes.get(name))["metadata"]

    play(NAMES, story)
