"""An ephemeral volume gets a claim of its own, which is deleted with the pod."""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.client.targets.untyped import EVENTS, VOLUME_CLAIMS
from tests.controllers.cities import Cities, play, pod

NAMES = "volume,scheduler,garbage,node"
SPEC = {
    "accessModes": ["ReadWriteOnce"],
    "storageClassName": "tarmac-local",
    "resources": {"requests": {"storage": "10Gi"}},
}


def with_scratch(name: str) -> JsonObject:
    template = {"metadata": {"labels": {"use": "scratch"}}, "spec": SPEC}
    return pod(name, volumes=[{"name": "scratch", "ephemeral": {"volumeClaimTemplate": template}}])


def test_the_claim_is_made_used_and_taken_away_with_the_pod() -> None:
    async def story(cities: Cities) -> None:
        claims = cities.user.resource(VOLUME_CLAIMS)
        await cities.pods.create(with_scratch("web"))
        await cities.wait(10)
        claim = await claims.get("web-scratch", "default")
        made = await cities.pods.get("web", "default")
        (owner,) = claim["metadata"]["ownerReferences"]
        assert (owner["uid"], owner["controller"]) == (made["metadata"]["uid"], True)
        assert claim["metadata"]["labels"] == {"use": "scratch"}
        assert claim["status"]["phase"] == "Bound"
        assert made["spec"]["nodeName"]
        await cities.pods.delete("web", "default", grace=0)

        async def gone() -> bool:
            return await cities.gone(claims, "web-scratch", "default")

        await cities.until(gone, 120)

    play(NAMES, story)


def test_a_claim_of_somebody_else_is_left_alone_and_told() -> None:
    async def story(cities: Cities) -> None:
        claims = cities.user.resource(VOLUME_CLAIMS)
        foreign: dict[str, Any] = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "spec": SPEC}
        await claims.create({**foreign, "metadata": {"name": "web-scratch", "namespace": "default"}})
        await cities.pods.create(with_scratch("web"))
        await cities.wait(10)
        assert "ownerReferences" not in (await claims.get("web-scratch", "default"))["metadata"]
        told = await cities.user.resource(EVENTS).list("default")
        assert [each["reason"] for each in told.items if each["reason"] == "ConflictingClaim"]

    play(NAMES, story)
