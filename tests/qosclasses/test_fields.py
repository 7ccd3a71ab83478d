"""The class fields of pods, nodes, quotas and limit ranges: storage, validation, and paths of errors."""

from __future__ import annotations

from typing import Any

import pytest

from tests.qosclasses.planet import BLOCKIO, PODS, QUOTAS, RANGES, Json, asking, causes, container, made, pod, quota
from tests.server.conftest import Client

NODES = "/api/v1/nodes"
SLOW = {"blockio": "slow"}


def classes_of(stored: Json) -> dict[str, Any]:
    spec = stored["spec"]
    named = [*spec.get("initContainers", ()), *spec["containers"]]
    found = {each["name"]: each["resources"]["classes"] for each in named if "classes" in each.get("resources", {})}
    return found | ({"": spec["resources"]["classes"]} if "classes" in spec.get("resources", {}) else {})


async def test_requested_classes_are_stored(api: Client) -> None:
    asked = pod("p", asking(blockio="slow"), initContainers=[container("i", classes={"rdt": "gold"})])
    asked["spec"]["resources"] = {"classes": {"example.com/cache": "big"}}
    stored = await made(api, f"{PODS}?fieldValidation=Strict", asked)
    assert classes_of(stored) == {"i": {"rdt": "gold"}, "main": SLOW, "": {"example.com/cache": "big"}}
    assert (await api.get(f"{PODS}/p")).json["spec"] == stored["spec"]


async def test_unset_fields_are_absent(api: Client) -> None:
    stored = await made(api, PODS, pod())
    assert b"lasses" not in (await api.get(f"{PODS}/p")).raw
    assert "resources" not in stored["spec"]


async def test_long_names_are_stored_as_short_ones(api: Client) -> None:
    asked = pod("p", container("main", classes={"k8s.io/rdt": "gold", "k8s.io/blockio": "slow", "k8s.io/x": "y"}))
    assert classes_of(await made(api, PODS, asked)) == {"main": {"rdt": "gold", "blockio": "slow", "k8s.io/x": "y"}}


@pytest.mark.parametrize(
    ("classes", "cause"),
    [
        ({"": "slow"}, ("[]", "Required value: name a type, such as blockio")),
        ({"blockio": ""}, ("[blockio]", "Required value: name a class")),
        ({"blockio": "a/b"}, ("[blockio]", 'Invalid value: "a/b": a valid label must be')),
        ({"blockio": "-a"}, ("[blockio]", 'Invalid value: "-a": a valid label must be')),
        ({"blockio": "x" * 64}, ("[blockio]", "must be no more than 63 bytes")),
        ({"block io": "slow"}, ("[block io]", "name part must consist of alphanumeric characters")),
        ({"a/b/c": "slow"}, ("[a/b/c]", "a valid label key must consist of alphanumeric characters")),
        ({"Up/b": "slow"}, ("[Up/b]", "prefix part a lowercase RFC 1123 subdomain")),
        ({"rdt": "gold", "k8s.io/rdt": "gold"}, ("[k8s.io/rdt]", 'Duplicate value: "rdt"')),
        ({"pod-qos": "Burstable"}, ("[pod-qos]", "Forbidden: is told to runtimes and cannot be asked for")),
        ({f"t{n}": "c" for n in range(17)}, ("", "Too many: 17: must have at most 16 items")),
    ],
    ids=str,
)
@pytest.mark.parametrize("level", ["container", "init", "pod"])
async def test_names_that_make_no_sense_are_refused(
    api: Client, level: str, classes: dict[str, str], cause: tuple[str, str]
) -> None:
    asked, path = pod(), {"container": "containers[0]", "init": "initContainers[0]", "pod": ""}[level]
    if level == "pod":
        asked["spec"]["resources"] = {"classes": classes}
    else:
        asked["spec"][path.partition("[")[0]] = [container("main", classes=classes)]
        if level == "init":
            asked["spec"]["containers"] = [container("other")]
    where, what = cause
    found = causes(await api.post(PODS, asked))
    assert found[0][0] == f"spec.{path}{'.' if path else ''}resources.classes{where}"
    assert what in found[0][1]


async def test_a_wrong_type_of_value_is_told_as_go_tells_it(api: Client) -> None:
    reply = await api.post(PODS, pod("p", container("main", classes=["slow"])))
    assert reply.status == 400
    assert "cannot unmarshal array into Go struct field ResourceRequirements.spec.containers.resources" in reply.message
    assert reply.message.endswith("classes of type map[string]string")


async def test_an_ephemeral_container_has_no_class_of_its_own(api: Client) -> None:
    await made(api, PODS, pod())
    debug = {"spec": {"ephemeralContainers": [container("debug", classes=SLOW)]}}
    reply = await api.patch(f"{PODS}/p/ephemeralcontainers", debug, "strategic")
    assert causes(reply)[0][0] == "spec.ephemeralContainers[0].resources"


# --- the other form ---


def listed(**classes: str) -> list[Json]:
    return [{"name": kind, "class": name} for kind, name in classes.items()]


async def test_the_lists_of_later_drafts_are_stored_as_maps(api: Client) -> None:
    asked = pod(
        "p", container("main", qosResources=listed(blockio="slow")), qosResources=listed(**{"k8s.io/rdt": "gold"})
    )
    stored = await made(api, f"{PODS}?fieldValidation=Strict", asked)
    assert classes_of(stored) == {"main": SLOW, "": {"rdt": "gold"}}
    assert b"qosResources" not in (await api.get(f"{PODS}/p")).raw


async def test_a_list_may_say_what_the_map_says(api: Client) -> None:
    both = container("main", classes={"rdt": "gold", **SLOW}, qosResources=listed(blockio="slow", x="y"))
    assert classes_of(await made(api, PODS, pod("p", both))) == {"main": {"rdt": "gold", "blockio": "slow", "x": "y"}}


@pytest.mark.parametrize(
    ("items", "field", "message"),
    [
        ([*listed(blockio="slow"), *listed(blockio="slow")], "[1].name", 'Duplicate value: "blockio"'),
        ([*listed(rdt="gold"), *listed(**{"k8s.io/rdt": "gold"})], "[1].name", 'Duplicate value: "k8s.io/rdt"'),
        (
            listed(blockio="fast"),
            "[0].class",
            'Invalid value: "fast": must be slow, as classes[blockio] says, or left out',
        ),
        (listed(blockio=""), "[0].class", "Required value: name a class"),
        (listed(**{"": "slow"}), "[0].name", "Required value: name a type, such as blockio"),
    ],
    ids=str,
)
async def test_a_list_that_contradicts_is_refused(api: Client, items: list[Json], field: str, message: str) -> None:
    reply = await api.post(PODS, pod("p", container("main", classes=SLOW, qosResources=items)))
    assert (f"spec.containers[0].resources.qosResources{field}", message) in causes(reply)
    everywhere = pod("p", resources={"classes": SLOW}, qosResources=items)
    assert (f"spec.qosResources{field}", message) in causes(await api.post(PODS, everywhere))


@pytest.mark.parametrize("kind", ["merge", "strategic", "apply"])
async def test_a_patch_may_be_written_as_a_list(api: Client, kind: str) -> None:
    await made(api, PODS, pod("p", asking(blockio="slow")))
    patch: Json = {
        "spec": {
            "containers": [{"name": "main", "image": "nginx", "resources": {"qosResources": listed(blockio="fast")}}]
        }
    }
    if kind == "apply":
        patch |= {"apiVersion": "v1", "kind": "Pod"}
    reply = await api.patch(
        f"{PODS}/p/resize?fieldManager=m&force=true" if kind == "apply" else f"{PODS}/p/resize", patch, kind
    )
    assert reply.status == 200, reply.raw
    assert classes_of(reply.json) == {"main": {"blockio": "fast"}}


async def test_apply_owns_the_stored_form(api: Client) -> None:
    config = {"apiVersion": "v1", "kind": "Pod", **pod("p", container("main", qosResources=listed(blockio="slow")))}
    reply = await api.patch(f"{PODS}/p?fieldManager=m", config, "apply")
    assert reply.status == 201, reply.raw
    (entry,) = reply.json["metadata"]["managedFields"]
    owned = entry["fieldsV1"]["f:spec"]["f:containers"]['k:{"name":"main"}']["f:resources"]
    assert owned == {"f:classes": {"f:blockio": {}}}


# --- nodes, quotas and limit ranges ---

OFFER: Json = {"name": "blockio", "classes": [{"name": "slow", "capacity": 4}, {"name": "fast"}]}


async def test_a_node_says_what_it_offers_and_reserves(api: Client) -> None:
    reserved = [{"resource": "cpu", "for": "system", "amount": "500m", "source": "provider gke"}]
    status = {
        "containerClassResources": [OFFER],
        "podClassResources": [{"name": "k8s.io/rdt", "immutable": True}],
        "reservations": reserved,
    }
    stored = await made(api, f"{NODES}?fieldValidation=Strict", {"metadata": {"name": "n"}, "status": status})
    shown = {key: stored["status"][key] for key in status}
    assert shown == {**status, "podClassResources": [{"name": "rdt", "immutable": True}]}


@pytest.mark.parametrize(
    ("types", "field", "message"),
    [
        ([{"classes": []}], "[0].name", "Required value: name a type, such as blockio"),
        ([OFFER, OFFER], "[1].name", 'Duplicate value: "blockio"'),
        ([{"name": "rdt"}, {"name": "k8s.io/rdt"}], "[1].name", 'Duplicate value: "rdt"'),
        ([{"name": "x", "classes": [{"name": "a"}, {"name": "a"}]}], "[0].classes[1].name", 'Duplicate value: "a"'),
        ([{"name": "x", "classes": [{"name": "a/b"}]}], "[0].classes[0].name", "Invalid value"),
        (
            [{"name": "x", "classes": [{"name": "a", "capacity": -1}]}],
            "[0].classes[0].capacity",
            "greater than or equal to",
        ),
        ([{"name": f"t{n}"} for n in range(17)], "", "Too many: 17"),
        ([{"name": "x", "classes": [{"name": f"c{n}"} for n in range(129)]}], "[0].classes", "Too many: 129"),
    ],
    ids=["no-name", "twice", "twice-by-long-name", "class-twice", "class-name", "capacity", "types", "classes"],
)
@pytest.mark.parametrize("level", ["podClassResources", "containerClassResources"])
async def test_lists_that_make_no_sense_are_refused(
    api: Client, level: str, types: list[Json], field: str, message: str
) -> None:
    node = await api.post(NODES, {"metadata": {"name": "n"}, "status": {level: types}})
    assert causes(node)[0][0] == f"status.{level}{field}"
    assert message in causes(node)[0][1]
    limits = await api.post(QUOTAS, {"metadata": {"name": "q"}, "spec": {level: types}})
    assert causes(limits)[0][0] == f"spec.{level}{field}"
    assert message in causes(limits)[0][1]


async def test_capacity_zero_is_none_in_a_quota_and_nonsense_in_a_node(api: Client) -> None:
    none = [{"name": "x", "classes": [{"name": "a", "capacity": 0}]}]
    found = causes(await api.post(NODES, {"metadata": {"name": "n"}, "status": {"podClassResources": none}}))
    assert found == [
        ("status.podClassResources[0].classes[0].capacity", "Invalid value: 0: must be greater than or equal to 1")
    ]
    stored = await made(api, QUOTAS, {"metadata": {"name": "q"}, "spec": {"podClassResources": none}})
    assert stored["spec"]["podClassResources"] == none


@pytest.mark.parametrize(
    ("item", "field", "message"),
    [
        ({"for": "kube", "amount": "1"}, "resource", "Required value"),
        (
            {"resource": "cpu", "for": "me", "amount": "1"},
            "for",
            'Unsupported value: "me": supported values: "system", "kube", "eviction"',
        ),
        ({"resource": "cpu", "for": "kube", "amount": "0"}, "amount", 'Invalid value: "0": must be greater than 0'),
    ],
)
async def test_a_reservation_is_of_something_for_somebody(api: Client, item: Json, field: str, message: str) -> None:
    reply = await api.post(NODES, {"metadata": {"name": "n"}, "status": {"reservations": [item]}})
    assert causes(reply) == [(f"status.reservations[0].{field}", message)]


async def test_a_type_is_counted_by_pods_or_by_containers(api: Client) -> None:
    both = quota("podClassResources", blockio={"slow": 1})
    both["spec"] |= quota("containerClassResources", blockio={"slow": 1})["spec"]
    (cause,) = causes(await api.post(QUOTAS, both))
    assert cause[0] == "spec.containerClassResources[0].name"
    assert "a type is counted by pods or by containers" in cause[1]


async def test_a_limit_range_has_defaults_for_pods_and_containers_only(api: Client) -> None:
    def ranges(kind: str, **more: Any) -> Json:
        return {
            "metadata": {"name": kind.lower()},
            "spec": {"limits": [{"type": kind, "defaultClasses": {"k8s.io/blockio": "slow"}, **more}]},
        }

    for kind in ("Pod", "Container"):
        stored = await made(api, f"{RANGES}?fieldValidation=Strict", ranges(kind))
        assert stored["spec"]["limits"] == [{"type": kind, "defaultClasses": SLOW}]
    refused = causes(await api.post(RANGES, ranges("PersistentVolumeClaim", min={"storage": "1Gi"})))
    assert [field for field, _ in refused] == ["spec.limits[0].defaultClasses"]


# --- status ---


async def test_the_classes_in_effect_are_shown_and_may_be_none(api: Client) -> None:
    await made(api, PODS, pod("p", asking(blockio="slow")))
    statuses = [
        {
            "name": "main",
            "image": "",
            "imageID": "",
            "ready": True,
            "restartCount": 0,
            "resources": {"classes": {"blockio": ""}},
        }
    ]
    patch = {"status": {"containerStatuses": statuses, "resources": {"classes": {"rdt": "gold"}}}}
    reply = await api.patch(f"{PODS}/p/status", patch, "strategic")
    assert reply.status == 200, reply.raw
    assert reply.json["status"]["containerStatuses"][0]["resources"] == {"classes": {"blockio": ""}}
    assert reply.json["status"]["resources"] == {"classes": {"rdt": "gold"}}
    statuses[0]["resources"] = {"classes": {"block io": "slow"}}
    refused = await api.patch(f"{PODS}/p/status", patch, "strategic")
    assert causes(refused)[0][0] == "status.containerStatuses[0].resources.classes[block io]"


# --- annotations ---


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("all", "slow", 'Invalid value: "slow": must end in /default or /container.NAME'),
        ("container.other", "slow", 'Invalid value: "slow": container not found'),
        ("default", "", 'Invalid value: "": must be the name of a class'),
        ("container.main", "a/b", 'Invalid value: "a/b": a valid label must be'),
    ],
)
async def test_annotations_that_make_no_sense_are_refused(api: Client, key: str, value: str, message: str) -> None:
    (cause, *_) = causes(await api.post(PODS, pod(annotations={f"{BLOCKIO}/{key}": value})))
    assert cause[0] == f"metadata.annotations[{BLOCKIO}/{key}]"
    assert cause[1].startswith(message)


@pytest.mark.parametrize("key", ["default", "container.main", "container.first"])
async def test_annotations_that_make_sense_are_taken(api: Client, key: str) -> None:
    await made(api, PODS, pod(annotations={f"{BLOCKIO}/{key}": "slow"}, initContainers=[container("first")]))


@pytest.mark.parametrize("level", ["container.main", "default"])
async def test_field_and_annotation_of_one_level_must_agree(api: Client, level: str) -> None:
    def asked(annotated: str) -> Json:
        spec = {"resources": {"classes": SLOW}} if level == "default" else {}
        own = container() if level == "default" else asking(blockio="slow")
        return pod("p", own, annotations={f"{BLOCKIO}/{level}": annotated}, **spec)

    (cause,) = causes(await api.post(PODS, asked("fast")))
    assert cause == (
        f"metadata.annotations[{BLOCKIO}/{level}]",
        'Invalid value: "fast": must be slow, as the field resources.classes[blockio] says, or left out',
    )
    await made(api, PODS, asked("slow"))


async def test_field_and_annotation_of_two_levels_may_differ(api: Client) -> None:
    asked = pod("p", asking(blockio="slow"), annotations={f"{BLOCKIO}/default": "fast"})
    await made(api, PODS, asked)


@pytest.mark.parametrize("wrong", [7, "x", [7], [[]], {}, {"a": 1}, [{"name": 7, "class": "a"}], [{"name": "a"}], True])
@pytest.mark.parametrize("kind", ["merge", "strategic", "apply"])
async def test_malformed_class_lists_are_refused(api: Client, kind: str, wrong: Any) -> None:
    await made(api, PODS, pod())
    for spec in ({"qosResources": wrong}, {"resources": wrong, "qosResources": listed(a="b")}, {"containers": wrong}):
        patch = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
        url = f"{PODS}/p?fieldManager=m&force=true" if kind == "apply" else f"{PODS}/p"
        reply = await api.patch(url, patch, kind)
        assert reply.status < 500 or b"Internal error" not in reply.raw, reply.raw


@pytest.mark.parametrize("wrong", [7, ["x"], {"a": 7}, {"blockio": None}, "x"])
async def test_a_map_of_anything_else_is_refused(api: Client, wrong: Any) -> None:
    assert (await api.post(PODS, pod("p", container("main", classes=wrong)))).status in (400, 422)
