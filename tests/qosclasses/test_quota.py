"""Access control: the classes that a namespace may use, and their numbers."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tarmac.decide.derived.pods import pod_of
from tarmac.store.memory import MemoryStore
from tests.decide.children.test_pods_of_instances import WHOLE, instance
from tests.decide.children.test_pods_of_instances import container as image
from tests.qosclasses.planet import BLOCKIO, PODS, QUOTAS, RANGES, Json, asking, container, made, pod, quota, serving
from tests.server.conftest import Client

SLOW, FAST = {"blockio": "slow"}, {"blockio": "fast"}
LIMITED = quota(blockio={"slow": 2})
NOT_LISTED = 'pods "p" is forbidden: failed quota: q: class blockio/fast is not allowed; allowed: slow'


async def status(api: Client) -> Json:
    for _ in range(10):  # the status is updated after the write
        await asyncio.sleep(0)
    return (await api.get(f"{QUOTAS}/q")).json["status"]


async def used(api: Client, level: str = "containerClassResources") -> list[Json]:
    """Return the used classes of the only type in the quota."""
    (item,) = (await status(api))[level]
    return item["classes"]


# --- all paths to a class ---


async def by_field(api: Client, name: str) -> Any:
    return await api.post(PODS, pod("p", asking(blockio=name)))


async def by_init_container(api: Client, name: str) -> Any:
    return await api.post(PODS, pod("p", initContainers=[container("i", classes={"blockio": name})]))


async def by_annotation(api: Client, name: str) -> Any:
    return await api.post(PODS, pod(annotations={f"{BLOCKIO}/container.main": name}))


async def by_default_annotation(api: Client, name: str) -> Any:
    return await api.post(PODS, pod(annotations={f"{BLOCKIO}/default": name}))


async def by_pod_level_default(api: Client, name: str) -> Any:
    return await api.post(PODS, pod(resources={"classes": {"blockio": name}}))


async def by_a_default_that_no_container_needs(api: Client, name: str) -> Any:
    """A node that offers the type for pods would apply it."""
    return await api.post(PODS, pod("p", asking(blockio="slow"), resources={"classes": {"blockio": name}}))


async def by_another_name(api: Client, name: str) -> Any:
    return await api.post(PODS, pod("p", container("main", classes={"k8s.io/blockio": name})))


async def by_the_other_form(api: Client, name: str) -> Any:
    return await api.post(PODS, pod(qosResources=[{"name": "k8s.io/blockio", "class": name}]))


async def by_limit_range(api: Client, name: str) -> Any:
    limits = [{"type": "Container", "defaultClasses": {"blockio": name}}]
    await made(api, RANGES, {"metadata": {"name": "r"}, "spec": {"limits": limits}})
    return await api.post(PODS, pod())


async def by_limit_range_of_pods(api: Client, name: str) -> Any:
    limits = [{"type": "Pod", "defaultClasses": {"blockio": name}}]
    await made(api, RANGES, {"metadata": {"name": "r"}, "spec": {"limits": limits}})
    return await api.post(PODS, pod())


async def by_resize(api: Client, name: str) -> Any:
    await made(api, PODS, pod())
    patch = {"spec": {"containers": [container("main", classes={"blockio": name})]}}
    return await api.patch(f"{PODS}/p/resize", patch, "strategic")


async def by_resize_of_the_pod(api: Client, name: str) -> Any:
    await made(api, PODS, pod())
    return await api.patch(f"{PODS}/p/resize", {"spec": {"resources": {"classes": {"blockio": name}}}}, "strategic")


async def by_apply(api: Client, name: str) -> Any:
    config = {"apiVersion": "v1", "kind": "Pod", **pod("p", asking(blockio=name))}
    return await api.patch(f"{PODS}/p?fieldManager=m", config, "apply")


WAYS = [
    by_field,
    by_init_container,
    by_annotation,
    by_default_annotation,
    by_pod_level_default,
    by_a_default_that_no_container_needs,
    by_another_name,
    by_the_other_form,
    by_limit_range,
    by_limit_range_of_pods,
    by_resize,
    by_resize_of_the_pod,
    by_apply,
]


@pytest.mark.parametrize("level", ["podClassResources", "containerClassResources"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_class_that_is_not_listed_cannot_be_had(api: Client, way: Any, level: str) -> None:
    await made(api, QUOTAS, quota(level, blockio={"slow": 2}))
    reply = await way(api, "fast")
    assert (reply.status, reply.message) == (403, NOT_LISTED)


@pytest.mark.parametrize("level", ["podClassResources", "containerClassResources"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_class_that_is_used_up_cannot_be_had(api: Client, way: Any, level: str) -> None:
    await made(api, QUOTAS, quota(level, blockio={"slow": 1, "fast": 1}))
    await made(api, PODS, pod("other", asking(blockio="fast")))
    reply = await way(api, "fast")
    assert (reply.status, reply.message) == (
        403,
        'pods "p" is forbidden: exceeded quota: q, requested: blockio/fast=1, used: blockio/fast=1, '
        "limited: blockio/fast=1",
    )


@pytest.mark.parametrize("level", ["podClassResources", "containerClassResources"])
@pytest.mark.parametrize("way", WAYS, ids=lambda way: way.__name__)
async def test_a_class_that_is_listed_and_free_can_be_had(api: Client, way: Any, level: str) -> None:
    await made(api, QUOTAS, quota(level, blockio={"slow": 1, "fast": 1}))
    assert (await way(api, "fast")).status in (200, 201)


async def by_workload(api: Client, name: str) -> Any:
    """Create the Pod that the controllers make for a Workload with the annotation on its template."""
    made_of = instance(image("main"), annotations={f"{BLOCKIO}/default": name})
    pod_made = pod_of(made_of, WHOLE)
    pod_made["metadata"] |= {"name": "p"}
    return await api.post(PODS, pod_made)


async def test_a_workload_meets_the_quota_in_its_pods(api: Client) -> None:
    await made(api, QUOTAS, quota(blockio={"slow": 1}))
    reply = await by_workload(api, "fast")
    assert (reply.status, reply.message) == (403, NOT_LISTED)
    await made(api, PODS, pod("other", asking(blockio="slow")))
    assert "exceeded quota: q, requested: blockio/slow=1" in (await by_workload(api, "slow")).message


# --- rules of quotas ---


async def test_types_that_a_quota_does_not_list_are_free(api: Client) -> None:
    await made(api, QUOTAS, LIMITED)
    await made(api, PODS, pod("p", asking(rdt="gold")))


async def test_nothing_is_restricted_without_a_quota(api: Client) -> None:
    await made(api, PODS, pod("p", asking(blockio="anything", rdt="gold")))


async def test_a_type_without_classes_may_not_be_used(api: Client) -> None:
    await made(api, QUOTAS, quota(blockio=None))
    reply = await by_field(api, "slow")
    assert reply.message.endswith("failed quota: q: class blockio/slow is not allowed; allowed: none")


async def test_a_class_without_a_capacity_is_allowed_without_limit(api: Client) -> None:
    await made(api, QUOTAS, quota(blockio={"slow": None}))
    for number in range(3):
        await made(api, PODS, pod(f"p{number}", asking(blockio="slow")))
    assert await used(api) == [{"name": "slow", "used": 3}]


async def test_containers_are_counted_as_they_run_side_by_side(api: Client) -> None:
    await made(api, QUOTAS, quota(blockio={"slow": 3}))
    init = [container("i", classes=SLOW), container("j", classes=SLOW)]
    await made(api, PODS, pod("a", container("one", classes=SLOW), container("two", classes=SLOW), initContainers=init))
    assert await used(api) == [{"name": "slow", "capacity": 3, "used": 2}]
    refused = await api.post(PODS, pod("b", container("one"), container("two"), resources={"classes": SLOW}))
    assert "requested: blockio/slow=2, used: blockio/slow=2, limited: blockio/slow=3" in refused.message


async def test_pods_are_counted_once(api: Client) -> None:
    await made(api, QUOTAS, quota("podClassResources", blockio={"slow": 1}))
    await made(api, PODS, pod("a", container("one", classes=SLOW), container("two", classes=SLOW)))
    assert await used(api, "podClassResources") == [{"name": "slow", "capacity": 1, "used": 1}]
    assert (await api.post(PODS, pod("b", asking(blockio="slow")))).status == 403


async def test_a_pod_that_has_ended_gives_its_places_back(api: Client) -> None:
    await made(api, QUOTAS, quota(blockio={"slow": 1}))
    await made(api, PODS, pod("a", asking(blockio="slow")))
    assert (await api.patch(f"{PODS}/a/status", {"status": {"phase": "Failed"}})).status == 200
    assert (await used(api))[0]["used"] == 0
    await made(api, PODS, pod("b", asking(blockio="slow")))
    assert (await api.delete(f"{PODS}/b?gracePeriodSeconds=0")).status == 200
    await made(api, PODS, pod("c", asking(blockio="slow")))


async def test_a_resize_is_charged_and_gives_back(api: Client) -> None:
    await made(api, QUOTAS, quota(blockio={"slow": 1, "fast": 1}))
    await made(api, PODS, pod("a", asking(blockio="slow")))
    await made(api, PODS, pod("b", asking(blockio="fast")))
    patch = {"spec": {"containers": [container("main", classes=FAST)]}}
    assert (
        "used: blockio/fast=1, limited: blockio/fast=1"
        in (await api.patch(f"{PODS}/a/resize", patch, "strategic")).message
    )
    assert (await api.delete(f"{PODS}/b?gracePeriodSeconds=0")).status == 200
    assert (await api.patch(f"{PODS}/a/resize", patch, "strategic")).status == 200
    assert {each["name"]: each["used"] for each in await used(api)} == {"slow": 0, "fast": 1}


async def test_a_pod_keeps_its_class_under_a_later_quota(api: Client) -> None:
    await made(api, PODS, pod("p", container("main", classes=FAST, requests={"cpu": "1"})))
    await made(api, QUOTAS, LIMITED)
    patch = {"spec": {"containers": [container("main", requests={"cpu": "2"})]}}
    assert (await api.patch(f"{PODS}/p/resize", patch, "strategic")).status == 200


async def test_scopes_apply(api: Client) -> None:
    limited = quota(blockio={"slow": 0})
    limited["spec"]["scopes"] = ["BestEffort"]
    await made(api, QUOTAS, limited)
    assert (await by_field(api, "slow")).status == 403
    await made(api, PODS, pod("p", container("main", classes=SLOW, requests={"cpu": "1"})))


async def test_amounts_are_counted_beside_classes(api: Client) -> None:
    limited = quota(blockio={"slow": 5})
    limited["spec"]["hard"] = {"pods": "1", "blockio/slow": "7"}
    await made(api, QUOTAS, limited)
    await made(api, PODS, pod("a", asking(blockio="slow")))
    shown = await status(api)
    amounts = ({"pods": "1", "blockio/slow": "7"}, {"pods": "1", "blockio/slow": "0"})
    classes = ({"classes.blockio/slow": "5"}, {"classes.blockio/slow": "1"})
    assert (shown["hard"], shown["used"]) == (amounts[0] | classes[0], amounts[1] | classes[1])
    assert shown["containerClassResources"][0]["classes"][0]["used"] == 1
    assert "exceeded quota: q, requested: pods=1" in (await api.post(PODS, pod("b"))).message


# --- limit ranges ---


async def with_defaults(api: Client, **defaults: Json) -> None:
    limits = [{"type": kind, "defaultClasses": classes} for kind, classes in defaults.items()]
    await made(api, RANGES, {"metadata": {"name": "r"}, "spec": {"limits": limits}})


async def test_defaults_fill_what_nobody_says(api: Client) -> None:
    await with_defaults(api, Container={"blockio": "slow", "rdt": "bronze"}, Pod={"cache": "small", "rdt": "gold"})
    said = pod(
        "a",
        asking(blockio="fast"),
        container("side"),
        annotations={"rdt.resources.alpha.kubernetes.io/container.side": "silver"},
    )
    stored = await made(api, PODS, said)
    first, second = (each["resources"]["classes"] for each in stored["spec"]["containers"])
    assert first == {"blockio": "fast", "rdt": "bronze"}
    assert second == {"blockio": "slow"}, "its annotation selects an rdt class"
    assert stored["spec"]["resources"]["classes"] == {"cache": "small", "rdt": "gold"}


@pytest.mark.parametrize(
    "said",
    [pod(resources={"classes": FAST}), pod(annotations={f"{BLOCKIO}/default": "fast"})],
    ids=["field", "annotation"],
)
async def test_the_pods_own_default_comes_before_the_namespaces(api: Client, said: Json) -> None:
    await with_defaults(api, Container=SLOW, Pod=SLOW)
    stored = await made(api, PODS, said)
    assert "slow" not in str(stored["spec"])


async def test_a_resize_is_not_filled(api: Client) -> None:
    await made(api, PODS, pod("p", container("main", requests={"cpu": "1"})))
    await with_defaults(api, Container=SLOW)
    patch = {"spec": {"containers": [container("main", requests={"cpu": "2"})]}}
    assert (
        "classes"
        not in (await api.patch(f"{PODS}/p/resize", patch, "strategic")).json["spec"]["containers"][0]["resources"]
    )


async def test_a_race_for_the_last_place_has_one_winner(store: MemoryStore) -> None:
    async with serving(store) as api:
        await made(api, QUOTAS, quota(blockio={"slow": 1}))
        replies = await asyncio.gather(*(api.post(PODS, pod(f"p{n}", asking(blockio="slow"))) for n in range(5)))
        assert sorted(reply.status for reply in replies) == [201, 403, 403, 403, 403]
