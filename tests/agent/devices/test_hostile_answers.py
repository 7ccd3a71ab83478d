"""A malformed response of a plugin is refused and changes nothing that belongs to the agent."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import Any

import pytest

from tarmac.agent.devices._generated import deviceplugin_subset_pb2 as pb
from tarmac.agent.devices.answers import InvalidPluginResponse, of_one_container, together
from tarmac.agent.devices.plugins import MAX_ID, devices_of
from tarmac.http.grpc import GrpcError
from tests.agent.devices.plugin import RESOURCE, DevicePlugin, listed, running
from tests.agent.devices.stage import a_node, a_pod, settled, until
from tests.support.loopwatch import LIMIT


def answer(**part: Any) -> bytes:
    return pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse(**part)]).SerializeToString()


def mount(container: str, host: str) -> bytes:
    return answer(mounts=[pb.Mount(container_path=container, host_path=host)])


def device(container: str, host: str) -> bytes:
    return answer(devices=[pb.DeviceSpec(container_path=container, host_path=host, permissions="rw")])


@pytest.mark.parametrize(
    "hostile",
    [
        mount("/x", "/dev/../etc/shadow"),
        mount("/x", "/.."),
        mount("/data/../etc/passwd", "/x"),
        mount("/x", "//../x"),
        mount("/x", "/a\0b"),
        device("/dev/x", "/dev/../root/disk"),
        device("/dev/../etc/x", "/dev/null"),
        device("dev/x", "/dev/null"),
        mount("/x", "../x"),
        answer(envs={"A": "b\0LD_PRELOAD=/x.so"}),
        answer(envs={"A\0B": "c"}),
        answer(envs={"": "c"}),
        answer(envs={"A=LD_PRELOAD": "/x.so"}),
        answer(annotations={f"a{number}": "" for number in range(1025)}),
        answer(cdi_devices=[pb.CDIDevice(name=f"v/c=x{number}") for number in range(1025)]),
    ],
    ids=range(15),
)
def test_an_answer_that_hides_a_path_or_a_variable_is_refused_in_few_words(hostile: bytes) -> None:
    with pytest.raises(InvalidPluginResponse) as caught:
        of_one_container(hostile)
    assert len(str(caught.value)) < 500
    assert str(caught.value).isprintable()


def test_an_answer_with_a_long_bad_path_is_refused_in_few_words() -> None:
    with pytest.raises(InvalidPluginResponse) as caught:
        of_one_container(mount("x" * 60_000, "/x"))
    assert len(str(caught.value)) < 500


def test_parts_for_containers_that_were_not_asked_for_are_dropped() -> None:
    parts = [pb.ContainerAllocateResponse(envs={"A": str(number)}) for number in range(100)]
    found = together([of_one_container(pb.AllocateResponse(container_responses=parts).SerializeToString())])
    assert found.envs == (("A", "0"),)


@pytest.mark.parametrize(
    "message",
    [
        listed({"x" * (1 << 20): "Healthy"}),
        listed({"x" * (MAX_ID + 1): "Healthy"}),
        listed({"": "Healthy"}),
        b"\x0a\x80\x80\x80\x80\x80\x80\x80\x80\x80\x01",
    ],
    ids=range(4),
)
def test_devices_with_ids_of_megabytes_are_none(message: bytes) -> None:
    begun = time.process_time()
    with suppress(GrpcError):
        assert devices_of(message, RESOURCE) == {}
    assert time.process_time() - begun < LIMIT


async def test_an_answer_after_the_end_of_its_pod_gives_nothing() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        await node.has(2)
        late = plugin.held["Allocate"] = asyncio.Event()
        waiting = asyncio.create_task(node.allocator.prepare(a_pod("one", 2)))
        await until(lambda: "one" in node.devices.holders())
        node.devices.release("one")
        late.set()
        reason, message = await settled(waiting) or ("", "")
        assert (reason, "the pod has ended" in message) == ("UnexpectedAdmissionError", True), message
        plugin.held.clear()
        assert await node.allocator.prepare(a_pod("two", 2)) is None
        assert node.ids("one") == []
