"""Containers that share a kernel of their own are in one cgroup, so they are in one class of each type."""

from __future__ import annotations

from typing import Any

import pytest

from tests.qosclasses.planet import BLOCKIO, PODS, Json, asking, causes, container, made, pod
from tests.server.conftest import Client

FAST, SLOW = {"blockio": "fast"}, {"blockio": "slow"}
SIDE = container("side", classes=FAST)


def sandboxed(*containers: Json, **more: Any) -> Json:
    asked = pod("p", *containers, **more)
    asked["spec"]["runtimeClassName"] = "gvisor"
    return asked


@pytest.mark.parametrize(
    "asked",
    [
        sandboxed(asking(blockio="slow"), SIDE),
        sandboxed(asking(blockio="slow"), container("side"), annotations={f"{BLOCKIO}/default": "fast"}),
        sandboxed(container(), SIDE, resources={"classes": SLOW}),
        sandboxed(asking(blockio="slow"), container("side"), initContainers=[container("i", classes=FAST)]),
    ],
    ids=["fields", "annotation", "default", "init"],
)
async def test_two_classes_of_one_type_are_refused(api: Client, asked: Json) -> None:
    (cause, *_) = causes(await api.post(PODS, asked))
    assert cause[0].endswith("resources.classes[blockio]")
    assert "the containers of runtime class gvisor share one kernel of their own: ask for one class" in cause[1]


async def test_a_pod_that_names_no_runtime_class_has_one(api: Client) -> None:
    asked = sandboxed(asking(blockio="slow"), SIDE)
    del asked["spec"]["runtimeClassName"]
    (cause,) = causes(await api.post(PODS, asked))
    assert cause[0] == "spec.containers[1].resources.classes[blockio]"


async def test_one_class_of_each_type_is_fine(api: Client) -> None:
    await made(
        api, PODS, sandboxed(asking(blockio="slow"), container("side", classes={"rdt": "gold"}), container("third"))
    )


async def test_the_hosts_kernel_keeps_containers_apart(api: Client) -> None:
    await made(api, PODS, pod("p", asking(blockio="slow"), SIDE))


async def test_a_resize_is_looked_at_too(api: Client) -> None:
    await made(api, PODS, sandboxed(asking(blockio="slow"), container("side", classes=SLOW)))
    one = {"spec": {"containers": [container("side", classes=FAST)]}}
    assert (
        causes(await api.patch(f"{PODS}/p/resize", one, "strategic"))[0][0]
        == "spec.containers[1].resources.classes[blockio]"
    )
    both = {"spec": {"containers": [container("main", classes=FAST), container("side", classes=FAST)]}}
    assert (await api.patch(f"{PODS}/p/resize", both, "strategic")).status == 200
