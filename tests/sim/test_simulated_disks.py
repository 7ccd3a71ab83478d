"""Disks of simulated nodes are made where the scheduler wants them, stay there, and go with their claims."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.schema import JsonObject
from tarmac.api.status import NotFound
from tarmac.client.targets import VOLUME_CLAIMS, VOLUMES
from tarmac.decide.scheduling.claims import SELECTED_NODE
from tests.sim.stage import Stage, play


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


async def made(stage: Stage, **annotations: str) -> JsonObject:
    await stage.user.resource(VOLUME_CLAIMS).create(claim(**annotations))
    await stage.wait(2)
    return await stage.user.resource(VOLUME_CLAIMS).get("data", "default")


def test_a_claim_gets_its_disk_on_the_node_that_was_chosen() -> None:
    async def story(stage: Stage) -> None:
        bound = await made(stage, **{SELECTED_NODE: "dfw-1"})
        assert bound["status"] == {
            "phase": "Bound", "capacity": {"storage": "10Gi"}, "accessModes": ["ReadWriteOnce"],
        }  # fmt: skip
        volume = await stage.user.resource(VOLUMES).get(bound["spec"]["volumeName"])
        assert volume["status"]["phase"] == "Bound"
        terms: list[dict[str, Any]] = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        assert terms[0]["matchExpressions"][0]["values"] == ["dfw-1"]

    play(story)


def test_a_claim_without_a_node_waits() -> None:
    async def story(stage: Stage) -> None:
        assert (await made(stage))["status"]["phase"] == "Pending"

    play(story)


def test_a_dead_node_makes_its_disk_when_it_is_back() -> None:
    async def story(stage: Stage) -> None:
        stage.fleet.die("dfw-1")
        assert (await made(stage, **{SELECTED_NODE: "dfw-1"}))["status"]["phase"] == "Pending"
        stage.fleet.revive("dfw-1")
        await stage.wait(10)
        assert (await stage.user.resource(VOLUME_CLAIMS).get("data", "default"))["status"]["phase"] == "Bound"

    play(story)


def test_a_disk_goes_with_its_claim() -> None:
    async def story(stage: Stage) -> None:
        bound = await made(stage, **{SELECTED_NODE: "dfw-0"})
        claims = stage.user.resource(VOLUME_CLAIMS)
        await claims.patch("data", {"metadata": {"finalizers": None}}, "default")
        await claims.delete("data", "default")
        await stage.wait(2)
        name = bound["spec"]["volumeName"]
        volume = await stage.user.resource(VOLUMES).get(name)
        assert "deletionTimestamp" in volume["metadata"]
        await stage.user.resource(VOLUMES).patch(name, {"metadata": {"finalizers": None}})
        with pytest.raises(NotFound):
            await stage.user.resource(VOLUMES).get(name)

    play(story)
