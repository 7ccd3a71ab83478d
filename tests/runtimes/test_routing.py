"""Several drivers as one runtime: pods are routed by handler, sandboxes and containers by id."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

from tarmac.runtimes.fake import FakeRuntime, RegistryImage
from tarmac.runtimes.interface import Handler, Runtime, RuntimeUnreachable
from tarmac.runtimes.routed import RoutedDriver, RoutedRuntime
from tests.runtimes.machine import RoutedMachine, Running


class Pair:
    """A pod with each driver."""

    def __init__(self, folder: Path) -> None:
        self.machine = RoutedMachine(folder, "runc")
        self.runtime: Runtime = self.machine.runtime
        self.main, self.other = self.machine.fake, self.machine.other

    async def start(self, handler: str) -> Running:
        self.machine.handler = handler
        return await self.machine.run(self.machine.waits())


async def test_each_pod_runs_with_the_driver_of_its_handler(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    container, vm = await pair.start("runc"), await pair.start("vm")
    assert [each.id for each in await pair.main.sandboxes()] == [container.sandbox_id]
    assert [each.id for each in await pair.other.sandboxes()] == [vm.sandbox_id]
    assert {each.id for each in await pair.runtime.sandboxes()} == {container.sandbox_id, vm.sandbox_id}
    assert {each.id for each in await pair.runtime.containers()} == {container.id, vm.id}
    assert {each.id for each in await pair.runtime.container_usage()} == {container.id, vm.id}
    await pair.machine.clean()


async def test_the_first_of_each_driver_are_not_mistaken_for_each_other(tmp_path: Path) -> None:
    """Both drivers count from one."""
    pair = Pair(tmp_path)
    container, vm = await pair.start("runc"), await pair.start("vm")
    await pair.runtime.stop_container(vm.id, 5)
    assert (await pair.runtime.container(container.id)).state == "running"
    assert (await pair.runtime.container(vm.id)).state == "exited"
    await pair.machine.clean()


async def test_a_pod_does_not_wait_for_a_driver_that_is_not_its_own(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    vm = await pair.start("vm")
    pair.main.unplug()
    pair.main.calls.clear()
    assert [each.id for each in await pair.runtime.sandboxes(vm.pod.pod.uid)] == [vm.sandbox_id]
    assert [each.id for each in await pair.runtime.containers(vm.pod.pod.uid)] == [vm.id]
    assert await vm.says("sh", "-c", "echo fine") == "fine"
    assert pair.main.calls == []


async def test_an_unreachable_driver_is_not_taken_for_empty(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    container, vm = await pair.start("runc"), await pair.start("vm")
    pair.other.unplug()
    with pytest.raises(RuntimeUnreachable):
        await pair.runtime.sandboxes()
    with pytest.raises(RuntimeUnreachable):
        await pair.runtime.sandboxes(vm.pod.pod.uid)
    assert [each.id for each in await pair.runtime.containers(container.pod.pod.uid)] == [container.id]


async def test_the_node_offers_the_handlers_of_all_that_can_work(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    assert [each.name for each in (await pair.runtime.status()).handlers] == ["gvisor", "runc", "vm"]
    pair.other.unplug()
    assert [each.name for each in (await pair.runtime.status()).handlers] == ["gvisor", "runc"]
    pair.main.unplug()
    with pytest.raises(RuntimeUnreachable):
        await pair.runtime.status()


async def test_an_image_belongs_to_the_driver_that_pulled_it(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    pair.other.registry["vm-tools:1"] = RegistryImage(size=7)
    pulled = await pair.runtime.pull("vm-tools:1", None, handler="vm")
    assert await pair.runtime.image("vm-tools:1") is None
    found = await pair.runtime.image("vm-tools:1", "vm")
    assert found is not None
    assert (found.id, found.handler) == (pulled, "vm")
    assert found in await pair.runtime.images()
    for image in await pair.runtime.images():
        await pair.runtime.remove_image(image.id, image.handler)
    assert await pair.runtime.images() == []
    assert await pair.other.images() == []


async def test_space_of_images_is_counted_where_the_main_driver_has_its_own(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    one, two = await pair.main.image_space(), await pair.other.image_space()
    assert await pair.runtime.image_space() == ("/", one[1] + two[1], one[2] + two[2])


async def test_changes_of_all_drivers_are_told(tmp_path: Path) -> None:
    pair = Pair(tmp_path)
    async with asyncio.timeout(10), aclosing(pair.runtime.events()) as events:
        assert await anext(events) is None
        awaited = {(await pair.start("runc")).pod.pod.uid, (await pair.start("vm")).pod.pod.uid}
        async for event in events:
            awaited -= {event.pod_uid} if event else set()
            if not awaited:
                break


@pytest.mark.parametrize(
    "others",
    [
        [("vm", "vm-"), ("vm", "machine-")],
        [("vm", "vm-"), ("other", "vm-other-")],
        [("vm", "")],
    ],
    ids=["one handler of two drivers", "a prefix that begins with another", "no prefix"],
)
def test_drivers_that_could_be_mistaken_are_refused(others: list[tuple[str, str]]) -> None:
    drivers = [
        RoutedDriver(FakeRuntime(handlers=(Handler(name),)), frozenset({name}), prefix) for name, prefix in others
    ]
    with pytest.raises(ValueError, match=r"handler|prefix"):
        RoutedRuntime(FakeRuntime(), *drivers)
