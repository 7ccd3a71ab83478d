"""An agent killed at any step gives no device twice and takes none away: the next one restores its state."""

from __future__ import annotations

import asyncio

import pytest

from tests.agent.devices.plugin import DevicePlugin, running
from tests.agent.devices.stage import a_node, a_pod, until


async def test_a_new_agent_knows_who_has_which_devices() -> None:
    async with a_node() as node:
        async with node.agent(), running(DevicePlugin(node.folder)):
            await node.has(2)
            assert await node.allocator.prepare(a_pod("one", 1)) is None
        async with node.agent():
            assert node.devices.holders() == {"one"}
            assert node.ids("one") == ["g0"]
            assert (
                node.devices.shown("one")["main"]["allocatedResourcesStatus"][0]["resources"][0]["health"] == "Unknown"
            )
            assert node.devices.amounts()[:2] == ({"example.com/gpu": 2}, {"example.com/gpu": 0})
            pod = a_pod("one", 1)
            assert await node.allocator.prepare(pod) is None
            assert node.allocator.allot(pod).containers["main"].devices.envs == (("GPUS", "g0"),)
            async with running(DevicePlugin(node.folder)) as plugin:
                await node.has(2)
                assert await node.allocator.prepare(a_pod("two", 1)) is None
                assert plugin.asked("Allocate") == [["g1"]]


@pytest.mark.parametrize("method", ["GetPreferredAllocation", "Allocate"])
async def test_an_agent_killed_while_the_plugin_is_asked_asks_for_the_same_again(method: str) -> None:
    async with a_node() as node:
        async with node.agent(), running(DevicePlugin(node.folder, prefers=True)) as plugin:
            await node.has(2)
            plugin.preferred = ["g1"]
            plugin.held[method] = asyncio.Event()
            giving = asyncio.create_task(node.allocator.prepare(a_pod("one", 1)))
            await until(lambda: plugin.asked(method))
            giving.cancel()
            await asyncio.wait([giving])
        async with node.agent(), running(DevicePlugin(node.folder, prefers=True)) as plugin:
            plugin.preferred = ["g1"]
            await node.has(2)
            pods = [a_pod("two", 1), a_pod("one", 1)]
            assert [await node.allocator.prepare(pod) for pod in pods] == [None, None]
            assert node.ids("one") == (["g1"] if method == "Allocate" else ["g0"])
            assert sorted(node.ids("one") + node.ids("two")) == ["g0", "g1"]


async def test_a_pod_waits_for_a_plugin_that_has_yet_to_come_back() -> None:
    async with a_node() as node:
        async with node.agent(), running(DevicePlugin(node.folder)):
            await node.has(2)
        async with node.agent():
            giving = asyncio.create_task(node.allocator.prepare(a_pod("one", 1)))
            await asyncio.sleep(0.1)
            assert not giving.done()
            async with running(DevicePlugin(node.folder)):
                assert await giving is None
                assert node.ids("one") == ["g0"]


async def test_the_devices_of_a_pod_that_ended_meanwhile_are_found_by_whoever_sweeps() -> None:
    async with a_node() as node:
        async with node.agent(), running(DevicePlugin(node.folder)):
            await node.has(2)
            assert await node.allocator.prepare(a_pod("one", 2)) is None
        async with node.agent(), running(DevicePlugin(node.folder)):
            await node.has(2)
            assert node.allocator.holders() == {"one"}
            node.allocator.release("one")
            assert await node.allocator.prepare(a_pod("two", 2)) is None


async def test_a_plugin_killed_while_it_allocates_gives_nothing_and_is_there_again() -> None:
    async with a_node() as node, node.agent():
        plugin = DevicePlugin(node.folder)
        plugin.held["Allocate"] = asyncio.Event()
        async with running(plugin):
            await node.has(2)
            giving = asyncio.create_task(node.allocator.prepare(a_pod("one", 1)))
            await until(lambda: plugin.asked("Allocate"))
        reason, message = await giving or ("", "")
        assert reason == "UnexpectedAdmissionError"
        assert message.startswith("Allocate failed due to rpc error: code = Unavailable desc = ")
        await node.has(0, 2)
        assert ("Warning", "DevicePluginLost") in [event[:2] for event in node.events]
        async with running(DevicePlugin(node.folder)):
            await node.has(2)
            assert await node.allocator.prepare(a_pod("two", 2)) is None


async def test_a_running_pod_keeps_its_devices_while_their_plugin_is_away() -> None:
    async with a_node() as node, node.agent():
        async with running(DevicePlugin(node.folder, pre_start=True)):
            await node.has(2)
            pod = a_pod("one", 1)
            assert await node.allocator.prepare(pod) is None
        await node.has(0, 2)
        await node.allocator.before_start(pod, "main")
        assert node.allocator.allot(pod).containers["main"].devices.envs == (("GPUS", "g0"),)
        assert (await node.allocator.prepare(a_pod("two", 1)) or ("", ""))[0] == "UnexpectedAdmissionError"
        async with running(DevicePlugin(node.folder)):
            await node.has(2)
            assert await node.allocator.prepare(a_pod("three", 1)) is None
            assert (node.ids("one"), node.ids("three")) == (["g0"], ["g1"])


async def test_a_new_agent_waits_for_devices_of_pods_that_are_gone() -> None:
    async with a_node() as node:
        async with node.agent(), running(DevicePlugin(node.folder)):
            await node.has(2)
            assert await node.allocator.prepare(a_pod("gone", 2)) is None
        async with node.agent(), running(DevicePlugin(node.folder)):
            await node.has(2)
            giving = asyncio.create_task(node.allocator.prepare(a_pod("new", 1)))
            await asyncio.sleep(0.1)
            assert not giving.done()
            node.allocator.release("gone")
            assert await giving is None
            assert node.ids("new") == ["g0"]
