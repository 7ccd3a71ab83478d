"""A plugin that floods, lies, repeats itself or never responds costs bounded memory and time, and harms only itself."""

from __future__ import annotations

import asyncio
import time
import tracemalloc
from collections.abc import AsyncIterator

import pytest

from tarmac.agent.devices import plugins
from tarmac.agent.devices._generated import deviceplugin_subset_pb2 as pb
from tarmac.agent.devices.plugins import MAX_DEVICES, MAX_LIST, devices_of
from tarmac.agent.model.allotment import AllocationRefused
from tarmac.http.grpc import GrpcError
from tests.agent.devices.plugin import RESOURCE, DevicePlugin, listed, running
from tests.agent.devices.stage import a_node, a_pod, until
from tests.support.loopwatch import LIMIT, LoopWatch

MANY = {f"device-{number:05d}": "Healthy" for number in range(MAX_DEVICES)}


async def test_a_flood_of_lists_is_held_up_at_its_socket() -> None:
    sent = 0

    async def flood() -> AsyncIterator[bytes]:
        nonlocal sent
        message = listed({f"g{number}": "Healthy" for number in range(2000)})
        while True:
            sent += 1
            yield message

    async with a_node() as node, node.agent():
        loud, quiet = DevicePlugin(node.folder, "example.com/loud", "loud.sock"), DevicePlugin(node.folder)
        loud.lists = flood
        async with running(quiet), running(loud):
            await node.has(2000, resource="example.com/loud")
            tracemalloc.start()
            before, begun = sent, time.monotonic()
            await asyncio.sleep(1.0)
            passed, grown = time.monotonic() - begun, tracemalloc.get_traced_memory()[0]
            tracemalloc.stop()
            assert grown < 8 << 20
            # The kernel's buffer, the window, and one list in each pace; without a limit there would be thousands.
            assert sent - before < 100 + 20 * passed / plugins.PACE
            assert await node.allocator.prepare(a_pod("one", 1)) is None
            assert await node.allocator.prepare(a_pod("two", 1, resource="example.com/loud")) is None


async def test_the_largest_list_and_its_choice_hold_nobody_up() -> None:
    async with a_node() as node, node.agent():
        plugin = DevicePlugin(node.folder, prefers=True)
        plugin.devices = MANY
        plugin.preferred = list(MANY)[-100:]
        async with running(plugin):
            await node.has(MAX_DEVICES)
            watch = LoopWatch()
            plugin.set({**MANY, "device-00000": "Unhealthy"})
            await node.has(MAX_DEVICES - 1, MAX_DEVICES)
            for uid in range(5):
                assert await node.allocator.prepare(a_pod(str(uid), 100)) is None
            # The plugin runs on this loop too, and so does gRPC's C library.
            assert watch.stop() < 4 * LIMIT


@pytest.mark.parametrize(
    ("message", "why"),
    [
        (listed({f"{number}": "" for number in range(MAX_DEVICES + 1)}), "more than 10000 devices"),
        (b"\x0a\x00" * (MAX_LIST // 2), "more than 10000 devices"),
        (b"\x12\x00" + b"\x0a\x00" * 100, "something else than devices"),
        (b"\x0a\x7f", "no message of the device plugin API"),
        (b"\x0a" + b"\xff" * 20, "something else than devices|no message"),
        (listed({"\N{SNOWMAN}": "Healthy"})[:-1], "no message of the device plugin API"),
    ],
)
def test_a_list_that_is_none_is_refused_in_no_time(message: bytes, why: str) -> None:
    begun = time.process_time()
    with pytest.raises(GrpcError, match=why):
        devices_of(message, RESOURCE)
    assert time.process_time() - begun < LIMIT


def test_devices_without_an_id_of_their_own_are_left_out() -> None:
    message = listed({"": "Healthy", "x" * 257: "Healthy", "a": "Healthy", "b": "broken"})
    message += listed({"a": "Unhealthy"})
    assert devices_of(message, RESOURCE) == {"a": False, "b": False}


async def test_a_plugin_whose_list_makes_no_sense_is_gone_and_may_come_again() -> None:
    async def nonsense() -> AsyncIterator[bytes]:
        yield listed({"g0": "Healthy"})
        yield b"\x12\x00"

    async with a_node() as node, node.agent():
        bad = DevicePlugin(node.folder)
        bad.lists = nonsense
        async with running(bad):
            await until(lambda: [each for each in node.events if each[1] == "DevicePluginLost"])
            await node.has(0, 1)
        async with running(DevicePlugin(node.folder)):
            await node.has(2)


async def test_a_plugin_that_lists_nothing_keeps_only_its_own_pods_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    async def silence() -> AsyncIterator[bytes]:
        await asyncio.Event().wait()
        yield b""

    monkeypatch.setattr("tarmac.agent.devices.devicemanager.RETURN", 0.3)
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)):
        mute = DevicePlugin(node.folder, "example.com/mute", "mute.sock")
        mute.lists = silence
        async with running(mute):
            await node.has(2)
            waiting = asyncio.create_task(node.allocator.prepare(a_pod("one", 1, resource="example.com/mute")))
            assert await node.allocator.prepare(a_pod("two", 1)) is None
            assert not waiting.done()
            words = "no healthy devices present; cannot allocate unhealthy devices example.com/mute"
            assert await waiting == ("UnexpectedAdmissionError", f"Allocate failed due to {words}, which is unexpected")


@pytest.mark.parametrize("method", ["Allocate", "GetPreferredAllocation", "PreStartContainer"])
async def test_a_plugin_that_never_answers_is_given_up(method: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("_ALLOCATE", "_QUICK", "_PRE_START"):
        monkeypatch.setattr(plugins, name, 0.3)
    async with a_node() as node, node.agent():
        plugin = DevicePlugin(node.folder, prefers=True, pre_start=True)
        async with running(plugin):
            await node.has(2)
            plugin.held[method] = asyncio.Event()
            pod = a_pod("one", 1)
            why = await node.allocator.prepare(pod)
            if method == "PreStartContainer":
                assert why is None
                with pytest.raises(AllocationRefused, match="code = DeadlineExceeded"):
                    await node.allocator.before_start(pod, "main")
                return
            assert "code = DeadlineExceeded" in (why or ("", ""))[1]
            plugin.held.clear()
            assert await node.allocator.prepare(a_pod("two", 2)) is None


def one(**part: object) -> bytes:
    return pb.AllocateResponse(container_responses=[pb.ContainerAllocateResponse(**part)]).SerializeToString()  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (b"", "no containers return in allocation response"),
        (b"\xff\xff", "no message of the device plugin API"),
        (
            one(mounts=[pb.Mount(container_path="relative", host_path="/x")]),
            "mount: 'relative' is not an absolute path without ..",
        ),
        (
            one(devices=[pb.DeviceSpec(container_path="/x", host_path="")]),
            "device: '' is not an absolute path without ..",
        ),
        (
            one(devices=[pb.DeviceSpec(container_path="/x", host_path="/x", permissions="rwx")]),
            "permissions 'rwx' are not out of r, w, m",
        ),
        (one(envs={"A=B": "c"}), "'A=B' is no name of an environment variable"),
        (one(cdi_devices=[pb.CDIDevice()] * 1025), "more than 1024 entries of one sort"),
        (one(envs={"A": "x" * (64 << 10)}), "code = ResourceExhausted"),
    ],
)
async def test_an_answer_that_no_runtime_could_use_is_refused_when_it_comes(answer: bytes, why: str) -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        await node.has(2)
        plugin.raw_answer = answer
        reason, message = await node.allocator.prepare(a_pod("one", 1)) or ("", "")
        assert (reason, why in message) == ("UnexpectedAdmissionError", True), message
        plugin.raw_answer = None
        assert await node.allocator.prepare(a_pod("two", 2)) is None


async def test_words_of_a_plugin_are_cut_and_talk_to_no_terminal() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        await node.has(2)
        plugin.refuses["Allocate"] = "\x1b[2J" + "x" * 4000
        _, message = await node.allocator.prepare(a_pod("one", 1)) or ("", "")
        assert "\x1b" not in message
        assert len(message) < 1200


async def test_a_plugin_that_registers_again_and_again_leaves_no_connection_behind() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        await node.has(2)
        assert await node.allocator.prepare(a_pod("one", 1)) is None
        for _ in range(10):
            await plugin.register()
        await node.has(2)
        await until(lambda: plugin.listeners == 1)
        assert node.ids("one") == ["g0"]


async def test_only_so_many_resources_are_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tarmac.agent.devices.devicemanager.PACE", 0.0)
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        for number in range(1, 64):
            await plugin.register(f"example.com/r{number}")
        with pytest.raises(Exception, match="64 resources are registered, which is the most"):
            await plugin.register("example.com/more")
        await plugin.register()
