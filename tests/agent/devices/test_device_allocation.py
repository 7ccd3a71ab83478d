"""Devices are chosen, recorded, allocated by the plugin, given to a container, and released when the pod has ended."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tarmac.agent.devices._generated import deviceplugin_subset_pb2 as pb
from tarmac.agent.devices.checkpoint import FILE
from tarmac.agent.model.allotment import AllocationRefused
from tarmac.runtimes.interface import Device, Mount
from tests.agent.devices.plugin import RESOURCE, DevicePlugin, running
from tests.agent.devices.stage import Node, a_node, a_pod, until

REASON = "UnexpectedAdmissionError"


def kept(node: Node) -> list[tuple[str, str, list[str], bool]]:
    """Return the checkpoint's entries: pod, container, devices, and whether the plugin has responded."""
    entries: list[dict[str, Any]] = json.loads((node.root / FILE).read_text())["Data"]["PodDeviceEntries"]
    return [(e["PodUID"], e["ContainerName"], e["DeviceIDs"]["-1"], e["AllocResp"] is not None) for e in entries]


async def test_a_container_gets_what_the_plugin_says() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        await node.has(2)
        pod = a_pod("one", 2)
        assert await node.allocator.prepare(pod) is None
        assert plugin.asked("Allocate") == [["g0", "g1"]]
        given = node.allocator.allot(pod).containers["main"].devices
        assert given.envs == (("GPUS", "g0,g1"),)
        assert given.mounts == (Mount("/gpu/g0", "/dev/null", True), Mount("/gpu/g1", "/dev/null", True))
        assert given.devices == (Device("/dev/g0", "/dev/zero", "rw"), Device("/dev/g1", "/dev/zero", "rw"))
        assert given.annotations == {"example.com/gpus": "g0,g1"}
        assert given.cdi == (f"{RESOURCE}=g0", f"{RESOURCE}=g1")
        shown = {
            "name": RESOURCE,
            "resources": [{"resourceID": device, "health": "Healthy"} for device in ("g0", "g1")],
        }
        assert node.devices.shown("one") == {"main": {"allocatedResourcesStatus": [shown]}}


async def test_a_pod_that_asks_for_no_device_asks_nobody() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        await node.has(2)
        pod = a_pod("one", 0)
        assert await node.allocator.prepare(pod) is None
        assert plugin.asked("Allocate") == []
        assert await node.allocator.prepare(a_pod("other", 3, resource="example.com/counted-by-an-admin")) is None


async def test_no_device_is_given_twice_and_an_ended_pod_gives_its_back() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)):
        await node.has(2)
        pods = [a_pod(str(number), 1) for number in range(4)]
        came = await asyncio.gather(*(node.allocator.prepare(pod) for pod in pods))
        assert [why is None for why in came].count(True) == 2
        words = f"requested number of devices unavailable for {RESOURCE}. Requested: 1, Available: 0"
        refusal = (REASON, f"Allocate failed due to {words}, which is unexpected")
        assert [why for why in came if why] == [refusal, refusal]
        assert sorted(node.ids("0") + node.ids("1")) == ["g0", "g1"]
        node.allocator.release("0")
        assert await node.allocator.prepare(pods[2]) is None
        assert node.ids("2") == ["g0"]


async def test_preferred_devices_are_allocated_if_they_are_free() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder, prefers=True)) as plugin:
        plugin.set({f"g{number}": "Healthy" for number in range(4)})
        await node.has(4)
        plugin.preferred = ["g3", "nonsense"]
        assert await node.allocator.prepare(a_pod("one", 1)) is None
        assert node.ids("one") == ["g3"]
        plugin.preferred = ["g3", "g2", "g2"]
        assert await node.allocator.prepare(a_pod("two", 2)) is None
        assert node.ids("two") == ["g2", "g0"]
        assert plugin.asked("GetPreferredAllocation") == [["g0", "g1", "g2", "g3"], ["g0", "g1", "g2"]]


async def test_two_pods_that_a_plugin_prefers_the_same_device_for_get_two() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder, prefers=True)) as plugin:
        await node.has(2)
        plugin.preferred = ["g1"]
        plugin.held["GetPreferredAllocation"] = asyncio.Event()
        both = asyncio.gather(*(node.allocator.prepare(a_pod(uid, 1)) for uid in ("one", "two")))
        await until(lambda: len(plugin.asked("GetPreferredAllocation")) == 2)
        plugin.held["GetPreferredAllocation"].set()
        assert await both == [None, None]
        assert sorted(node.ids("one") + node.ids("two")) == ["g0", "g1"]


async def test_the_devices_of_an_init_container_are_used_again() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        await node.has(2)
        pod = a_pod("one", ("main", 1), init=(("first", 2), ("sidecar", 1, True)))
        assert await node.allocator.prepare(pod) is None
        assert plugin.asked("Allocate") == [["g0", "g1"], ["g0"], ["g1"]]
        assert (node.ids("one", "sidecar"), node.ids("one")) == (["g0"], ["g1"])
        assert (await node.allocator.prepare(a_pod("two", 1)) or ("", ""))[0] == REASON


async def test_chosen_devices_are_on_disk_before_the_plugin_is_called() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        await node.has(2)
        plugin.held["Allocate"] = asyncio.Event()
        giving = asyncio.create_task(node.allocator.prepare(a_pod("one", 1)))
        await until(lambda: plugin.asked("Allocate"))
        assert kept(node) == [("one", "main", ["g0"], False)]
        plugin.held["Allocate"].set()
        assert await giving is None
        assert kept(node) == [("one", "main", ["g0"], True)]
        node.allocator.release("one")
        assert kept(node) == []


async def test_a_plugins_refusal_is_told_in_its_words_and_the_devices_are_free() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        await node.has(2)
        plugin.refuses["Allocate"] = "the fan is on fire"
        words = "rpc error: code = Unknown desc = the fan is on fire"
        refusal = (REASON, f"Allocate failed due to {words}, which is unexpected")
        assert await node.allocator.prepare(a_pod("one", 2)) == refusal
        assert kept(node) == []
        plugin.refuses.clear()
        assert await node.allocator.prepare(a_pod("two", 2)) is None


async def test_unhealthy_devices_are_given_to_nobody_and_shown_where_they_are() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        await node.has(2)
        assert await node.allocator.prepare(a_pod("one", 1)) is None
        plugin.set({"g0": "Unhealthy", "g1": "Unhealthy"})
        await node.has(0, 2)
        assert node.woken == ["one"]
        told = node.devices.shown("one")["main"]["allocatedResourcesStatus"][0]["resources"]
        assert told == [{"resourceID": "g0", "health": "Unhealthy"}]
        words = f"no healthy devices present; cannot allocate unhealthy devices {RESOURCE}"
        why = await node.allocator.prepare(a_pod("two", 1))
        assert why == (REASON, f"Allocate failed due to {words}, which is unexpected")
        plugin.set({"g0": "Healthy", "g1": "Healthy"})
        await node.has(2)
        assert node.woken == ["one", "one"]


async def test_a_plugin_is_asked_before_each_start_if_it_wants_that() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder, pre_start=True)) as plugin:
        await node.has(2)
        pod = a_pod("one", ("main", 1), ("other", 1))
        assert await node.allocator.prepare(pod) is None
        for _ in range(2):
            await node.allocator.before_start(pod, "main")
        assert plugin.asked("PreStartContainer") == [["g0"], ["g0"]]
        plugin.refuses["PreStartContainer"] = "not now"
        words = "device plugin PreStartContainer rpc failed with err: rpc error: code = Unknown desc = not now"
        with pytest.raises(AllocationRefused, match=words):
            await node.allocator.before_start(pod, "main")
        assert node.ids("one") == ["g0"]


async def test_a_container_that_lost_its_devices_with_the_file_gets_others_when_it_starts_again() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)):
        await node.has(2)
        pod = a_pod("one", 1)
        assert node.allocator.allot(pod).containers["main"].devices.envs == ()
        await node.allocator.before_start(pod, "main")
        assert node.allocator.allot(pod).containers["main"].devices.envs == (("GPUS", "g0"),)


async def test_answers_of_several_plugins_are_put_together() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)):
        other = DevicePlugin(node.folder, "example.com/nic", "nic.sock")
        other.devices = {"n0": "Healthy"}
        other.answer = lambda _: pb.ContainerAllocateResponse(envs={"GPUS": "mine", "NIC": "n0"})
        async with running(other):
            await node.has(2)
            await node.has(1, resource="example.com/nic")
            pod = a_pod("one", 1)
            pod.containers[0]["resources"]["limits"]["example.com/nic"] = "1"
            assert await node.allocator.prepare(pod) is None
            given = dict(node.allocator.allot(pod).containers["main"].devices.envs)
            assert given == {"GPUS": "g0", "NIC": "n0"}


async def test_a_disk_that_takes_nothing_gives_no_device() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)) as plugin:
        await node.has(2)
        (node.root / FILE).with_suffix(".new").mkdir()
        reason, message = await node.allocator.prepare(a_pod("one", 1)) or ("", "")
        assert (reason, plugin.asked("Allocate")) == (REASON, [])
        assert f'failed to write checkpoint file "{FILE}"' in message
        (node.root / FILE).with_suffix(".new").rmdir()
        assert await node.allocator.prepare(a_pod("one", 1)) is None


async def test_figures_count_registrations_and_calls() -> None:
    async with a_node() as node, node.agent(), running(DevicePlugin(node.folder)):
        await node.has(2)
        assert await node.allocator.prepare(a_pod("one", 1)) is None
        found = {f"{family}{labels}": value for family, _, labels, value in node.devices.metrics()}
        of = {"resource_name": RESOURCE}
        assert found[f"kubelet_device_plugin_registration_total{of}"] == 1
        assert found[f"kubelet_device_plugin_alloc_duration_seconds_count{of}"] == 1
        assert found[f"kubelet_device_plugin_alloc_duration_seconds_sum{of}"] > 0
