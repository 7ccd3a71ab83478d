"""With the server's feature gate off, new requests for classes are rejected, and stored ones are kept."""

from __future__ import annotations

import pytest

from tarmac.store.memory import MemoryStore
from tests.qosclasses.planet import (
    BLOCKIO,
    OFF,
    PODS,
    QUOTAS,
    RANGES,
    Json,
    asking,
    causes,
    container,
    made,
    pod,
    quota,
    serving,
)
from tests.qosclasses.test_fields import classes_of

SLOW, FAST = {"blockio": "slow"}, {"blockio": "fast"}
RANGE: Json = {"metadata": {"name": "r"}, "spec": {"limits": [{"type": "Container", "defaultClasses": SLOW}]}}


@pytest.mark.parametrize(
    ("url", "obj", "field"),
    [
        (PODS, pod("p", asking(blockio="slow")), "spec.containers[0].resources.classes"),
        (PODS, pod(initContainers=[container("i", classes=SLOW)]), "spec.initContainers[0].resources.classes"),
        (PODS, pod(resources={"classes": SLOW}), "spec.resources.classes"),
        (PODS, pod(qosResources=[{"name": "blockio", "class": "slow"}]), "spec.resources.classes"),
        (QUOTAS, quota(blockio={"slow": 1}), "spec.containerClassResources"),
        (QUOTAS, quota("podClassResources", blockio={"slow": 1}), "spec.podClassResources"),
        (RANGES, RANGE, "spec.limits[0].defaultClasses"),
    ],
)
async def test_new_fields_are_refused(store: MemoryStore, url: str, obj: Json, field: str) -> None:
    async with serving(store, class_resources=False) as api:
        assert causes(await api.post(url, obj)) == [(field, f"Forbidden: {OFF}")]


async def test_annotations_are_not_looked_at_and_still_do_not_change(store: MemoryStore) -> None:
    async with serving(store, class_resources=False) as api:
        await made(api, PODS, pod(annotations={f"{BLOCKIO}/nonsense": "", f"{BLOCKIO}/default": "slow"}))
        reply = await api.patch(f"{PODS}/p", {"metadata": {"annotations": {f"{BLOCKIO}/default": "fast"}}})
        assert causes(reply)[0][0] == f"metadata.annotations[{BLOCKIO}/default]"


async def test_off_and_on_again_keeps_what_is_stored(store: MemoryStore) -> None:
    limited = quota(blockio={"slow": 1})
    async with serving(store) as api:
        await made(api, QUOTAS, limited)
        await made(api, RANGES, RANGE)
        await made(
            api,
            PODS,
            pod("p", container("main", classes=SLOW, requests={"cpu": "1"}), resources={"classes": {"rdt": "gold"}}),
        )
        before = {url: (await api.get(url)).json for url in (f"{PODS}/p", f"{QUOTAS}/q", f"{RANGES}/r")}
    async with serving(store, class_resources=False) as api:
        for url, stored in before.items():
            found = (await api.get(url)).json
            assert (found["spec"], found.get("status")) == (stored["spec"], stored.get("status"))
            found["metadata"]["labels"] = {"written": "back"}
            again = await api.put(url, found)
            assert again.status == 200, again.raw
            assert again.json["spec"] == stored["spec"]
        patch = {"spec": {"containers": [container("main", requests={"cpu": "2"})]}}
        assert (await api.patch(f"{PODS}/p/resize", patch, "strategic")).status == 200, "only cpu changes"
        changed = {"spec": {"containers": [container("main", classes=FAST)]}}
        refused = causes(await api.patch(f"{PODS}/p/resize", changed, "strategic"))
        assert refused == [("spec.containers[0].resources.classes", f"Forbidden: {OFF}")]
        wider = {"spec": quota(blockio={"slow": 9})["spec"]}
        assert causes(await api.patch(f"{QUOTAS}/q", wider)) == [("spec.containerClassResources", f"Forbidden: {OFF}")]
        other = await made(api, PODS, pod("q", annotations={f"{BLOCKIO}/default": "slow"}))
        assert classes_of(other) == {}, "neither limit range nor quota applies"
        assert (await api.get(f"{QUOTAS}/q")).json["status"] == before[f"{QUOTAS}/q"]["status"]
    async with serving(store) as api:
        found = (await api.get(f"{PODS}/p")).json
        assert classes_of(found) == {"main": SLOW, "": {"rdt": "gold"}}
        assert (await api.get(f"{QUOTAS}/q")).json["spec"] == limited["spec"]
        refused = await api.post(PODS, pod("r", asking(blockio="slow")))
        assert "used: blockio/slow=2, limited: blockio/slow=1" in refused.message, (
            "pods that were created while it was off count"
        )


async def test_off_a_field_may_go(store: MemoryStore) -> None:
    both: Json = {
        "metadata": {"name": "r"},
        "spec": {"limits": [{"type": "Pod", "max": {"cpu": "1"}}, *RANGE["spec"]["limits"]]},
    }
    async with serving(store) as api:
        await made(api, QUOTAS, quota(blockio={"slow": 1}, rdt={"gold": 1}))
        await made(api, RANGES, both)
    async with serving(store, class_resources=False) as api:
        less = await api.patch(f"{QUOTAS}/q", {"spec": quota(blockio={"slow": 1})["spec"]})
        assert less.status == 200, less.raw
        moved = await api.patch(f"{RANGES}/r", RANGE)
        assert moved.status == 200, "the same entry at a different index"
