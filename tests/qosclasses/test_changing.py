"""Changes of classes after a pod was created."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.api.decode.media import PROTOBUF
from tests.decode.wire import encode_body
from tests.qosclasses.planet import BLOCKIO, PODS, QUOTAS, RANGES, RDT, Json, asking, causes, container, made, pod
from tests.qosclasses.test_fields import NODES, classes_of
from tests.server.conftest import Client

SLOW, FAST = {"blockio": "slow"}, {"blockio": "fast"}
SAID = "Forbidden: may not be added, changed or removed: it asks for a class"


def resized(*containers: Json, **spec: Any) -> Json:
    return {"spec": {"containers": [*containers], **spec}}


async def resize(api: Client, patch: Json, name: str = "p") -> Any:
    return await api.patch(f"{PODS}/{name}/resize", patch, "strategic")


@pytest.mark.parametrize("door", ["", "/status"])
@pytest.mark.parametrize(
    "change", [{f"{BLOCKIO}/default": "fast"}, {f"{BLOCKIO}/default": None}, {f"{RDT}/container.main": "gold"}]
)
async def test_annotations_stay_as_they_are(api: Client, door: str, change: Json) -> None:
    await made(api, PODS, pod(annotations={f"{BLOCKIO}/default": "slow", "other": "x"}))
    reply = await api.patch(f"{PODS}/p{door}", {"metadata": {"annotations": {**change, "other": "y"}}})
    assert causes(reply) == [(f"metadata.annotations[{next(iter(change))}]", SAID)]
    fine = await api.patch(f"{PODS}/p{door}", {"metadata": {"annotations": {"other": "y"}}})
    assert fine.status == 200


async def test_a_binding_brings_no_class_along(api: Client) -> None:
    await made(api, PODS, pod(annotations={f"{BLOCKIO}/default": "slow"}))
    binding: Json = {"metadata": {"name": "p", "annotations": {f"{BLOCKIO}/default": "fast"}}, "target": {"name": "n"}}
    for url in (f"{PODS}/p/binding", "/api/v1/namespaces/default/bindings"):
        assert causes(await api.post(url, binding)) == [(f"metadata.annotations[{BLOCKIO}/default]", SAID)]
    assert "nodeName" not in (await api.get(f"{PODS}/p")).json["spec"]
    binding["metadata"]["annotations"] = {f"{BLOCKIO}/default": "slow", "other": "x"}
    assert (await api.post(f"{PODS}/p/binding", binding)).status == 201
    assert (await api.get(f"{PODS}/p")).json["metadata"]["annotations"] == binding["metadata"]["annotations"]


async def test_fields_do_not_change_with_the_pod(api: Client) -> None:
    await made(api, PODS, pod("p", asking(blockio="slow")))
    for changed in (FAST, {"rdt": "gold"}):
        reply = await api.patch(f"{PODS}/p", resized(container("main", classes=changed)), "strategic")
        assert causes(reply)[0][1].startswith("Forbidden: pod updates may not change fields other than")
    gone = [{"op": "remove", "path": "/spec/containers/0/resources/classes"}]
    assert (await api.patch(f"{PODS}/p", gone, "json")).status == 422


async def test_classes_change_in_place(api: Client) -> None:
    sidecar = {**container("side", classes=SLOW), "restartPolicy": "Always"}
    await made(api, PODS, pod("p", asking(blockio="slow"), initContainers=[sidecar]))
    before = (await api.get(f"{PODS}/p")).json["metadata"]["generation"]
    changed = await resize(
        api,
        resized(container("main", classes={"rdt": "gold", **FAST}), initContainers=[container("side", classes=FAST)]),
    )
    assert classes_of(changed.json) == {"main": {"rdt": "gold", **FAST}, "side": FAST}
    assert changed.json["metadata"]["generation"] == before + 1, "the node must see it"
    removed = await resize(api, resized(container("main", classes={"blockio": None})))
    assert classes_of(removed.json) == {"main": {"rdt": "gold"}, "side": FAST}


async def test_the_pods_own_classes_change_in_place(api: Client) -> None:
    await made(api, PODS, pod())
    added = await resize(api, {"spec": {"resources": {"classes": {"k8s.io/rdt": "gold"}}}})
    assert classes_of(added.json) == {"": {"rdt": "gold"}}
    removed = await resize(api, {"spec": {"resources": {"classes": {"rdt": None}}}})
    assert "resources" not in removed.json["spec"]


async def test_classes_and_amounts_change_together(api: Client) -> None:
    await made(api, PODS, pod("p", container("main", requests={"cpu": "1"}, classes=SLOW)))
    changed = await resize(api, resized(container("main", requests={"cpu": "2"}, classes=FAST)))
    assert changed.json["spec"]["containers"][0]["resources"] == {"requests": {"cpu": "2"}, "classes": FAST}


async def test_classes_change_in_a_pod_that_has_amounts_of_its_own(api: Client) -> None:
    await made(api, PODS, pod("p", asking(blockio="slow"), resources={"requests": {"cpu": "1"}}))
    changed = await resize(api, resized(container("main", classes=FAST)))
    assert changed.status == 200, changed.raw
    refused = await resize(api, resized(container("main", classes=SLOW, requests={"cpu": "500m"})))
    assert "resize of pods with pod-level resources is forbidden" in refused.message
    again = await resize(api, resized(container("main", classes=FAST)))
    assert "resize of pods with pod-level resources is forbidden" in again.message, "in Kubernetes' words"


async def test_an_init_container_keeps_its_class(api: Client) -> None:
    await made(api, PODS, pod("p", initContainers=[container("i", classes=SLOW)]))
    reply = await resize(api, {"spec": {"initContainers": [container("i", classes=FAST)]}})
    assert causes(reply) == [("spec", "Forbidden: resources for non-sidecar init containers are immutable")]


async def test_a_resize_changes_nothing_else_of_resources(api: Client) -> None:
    claims = [{"name": "c", "resourceClaimName": "x"}]
    await made(api, PODS, pod("p", container("main", claims=[{"name": "c"}]), resourceClaims=claims))
    gone = [{"op": "remove", "path": "/spec/containers/0/resources/claims"}]
    reply = await api.patch(f"{PODS}/p/resize", gone, "json")
    assert causes(reply) == [("spec", "Forbidden: only cpu and memory resources are mutable")]


@pytest.mark.parametrize(
    ("annotations", "patch", "key"),
    [
        ({f"{BLOCKIO}/container.main": "slow"}, resized(container("main", classes=FAST)), f"{BLOCKIO}/container.main"),
        ({f"{BLOCKIO}/default": "slow"}, resized(container("main", classes=FAST)), f"{BLOCKIO}/default"),
        ({f"{BLOCKIO}/default": "slow"}, {"spec": {"resources": {"classes": FAST}}}, f"{BLOCKIO}/default"),
    ],
)
async def test_a_class_that_an_annotation_gives_stays(api: Client, annotations: Json, patch: Json, key: str) -> None:
    await made(api, PODS, pod(annotations=annotations))
    (cause, *_) = causes(await resize(api, patch))
    assert cause == (
        "spec.containers[0].resources.classes[blockio]",
        f"Forbidden: the class of container main comes from the annotation {key} and cannot be changed",
    )


async def test_a_field_may_say_what_the_annotation_says(api: Client) -> None:
    await made(api, PODS, pod(annotations={f"{BLOCKIO}/container.main": "slow"}))
    assert (await resize(api, resized(container("main", classes=SLOW)))).status == 200
    assert (await resize(api, resized(container("main", classes={"blockio": None})))).status == 200


async def test_a_resize_does_not_contradict_an_annotation_that_nobody_goes_by(api: Client) -> None:
    await made(api, PODS, pod("p", asking(blockio="slow"), annotations={f"{BLOCKIO}/default": "slow"}))
    (cause,) = causes(await resize(api, {"spec": {"resources": {"classes": FAST}}}))
    assert cause[0] == f"metadata.annotations[{BLOCKIO}/default]"


# --- clients that do not know the fields ---


async def test_a_put_that_names_no_class_keeps_them(api: Client) -> None:
    stored = await made(api, PODS, pod("p", asking(blockio="slow"), resources={"classes": {"rdt": "gold"}}))
    del stored["spec"]["resources"], stored["spec"]["containers"][0]["resources"]["classes"]
    stored["metadata"]["labels"] = {"a": "b"}
    for door in ("", "/resize"):
        reply = await api.put(f"{PODS}/p{door}", stored)
        assert reply.status == 200, reply.raw
        assert classes_of(reply.json) == {"main": SLOW, "": {"rdt": "gold"}}
        stored["metadata"].pop("resourceVersion", None)


async def test_a_put_that_names_classes_is_meant_as_it_is(api: Client) -> None:
    stored = await made(api, PODS, pod("p", asking(blockio="slow", rdt="gold")))
    del stored["spec"]["containers"][0]["resources"]["classes"]["rdt"]
    assert (await api.put(f"{PODS}/p", stored)).status == 422
    reply = await api.put(f"{PODS}/p/resize", stored)
    assert classes_of(reply.json) == {"main": SLOW}


def unknown_to_go(obj: Json) -> bytes:
    """Encode the object as a Go client that has decoded it into structs without the field."""
    return encode_body({**obj, "kind": obj["kind"]}, "")


async def test_protobuf_cannot_take_anything_away(api: Client) -> None:
    pod_status = {
        "containerStatuses": [
            {
                "name": "main",
                "image": "",
                "imageID": "",
                "ready": True,
                "restartCount": 0,
                "resources": {"classes": SLOW},
            }
        ]
    }
    await made(api, PODS, pod("p", asking(blockio="slow"), resources={"classes": {"rdt": "gold"}}))
    assert (await api.patch(f"{PODS}/p/status", {"status": pod_status}, "strategic")).status == 200
    offer = [{"name": "blockio", "classes": [{"name": "slow", "capacity": 4}]}]
    reserved = [{"resource": "cpu", "for": "kube", "amount": "1", "source": "flag"}]
    status = {"containerClassResources": offer, "reservations": reserved}
    await made(api, NODES, {"metadata": {"name": "n"}, "status": status})
    await made(api, QUOTAS, {"metadata": {"name": "q"}, "spec": {"hard": {"pods": "5"}, "podClassResources": offer}})
    limits = [{"type": "PersistentVolumeClaim", "max": {"storage": "9"}}, {"type": "Container", "defaultClasses": SLOW}]
    await made(api, RANGES, {"metadata": {"name": "r"}, "spec": {"limits": limits}})
    for url, doors in (
        (f"{PODS}/p", ("", "/status", "/resize")),
        (f"{NODES}/n", ("", "/status")),
        (f"{QUOTAS}/q", ("", "/status")),
        (f"{RANGES}/r", ("",)),
    ):
        for door in doors:
            stored = (await api.get(url)).json
            changed = {**stored, "metadata": {**stored["metadata"], "labels": {"door": door.strip("/") or "main"}}}
            reply = await api.put(f"{url}{door}", unknown_to_go(changed), content_type=PROTOBUF)
            assert reply.status == 200, reply.raw
            again = (await api.get(url)).json
            assert again.get("spec") == stored.get("spec"), (url, door)
            assert again.get("status") == stored.get("status"), (url, door)


async def test_protobuf_takes_away_what_goes_with_its_item(api: Client) -> None:
    limits = [{"type": "PersistentVolumeClaim", "max": {"storage": "9"}}, {"type": "Container", "defaultClasses": SLOW}]
    stored = await made(api, RANGES, {"metadata": {"name": "r"}, "spec": {"limits": limits}})
    stored["spec"]["limits"] = limits[:1]
    reply = await api.put(f"{RANGES}/r", unknown_to_go(stored), content_type=PROTOBUF)
    assert reply.json["spec"]["limits"] == limits[:1]


async def test_json_of_other_kinds_is_meant_as_it_is(api: Client) -> None:
    stored = await made(api, QUOTAS, {"metadata": {"name": "q"}, "spec": {"podClassResources": [{"name": "rdt"}]}})
    del stored["spec"]["podClassResources"], stored["metadata"]["resourceVersion"]
    assert (await api.put(f"{QUOTAS}/q", stored)).json["spec"] == {}
