"""A node whose pods are run by two drivers: each pod by its own, and everything that looks at the node sees both."""

from __future__ import annotations

from typing import cast

from tarmac.agent.collection.images import Images
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.agent.pods.manager import RUNTIME_CLASSES
from tarmac.agent.stats.pods import PodStats
from tarmac.client.events import InvolvedObject, Recorder
from tarmac.runtimes.fake import FakeRuntime, Program, RegistryImage
from tarmac.runtimes.interface import Handler
from tarmac.runtimes.routed import Driver, RoutedRuntime
from tests.agent.pods.machine import IMAGE, Machine, container_status, play


async def with_machines(machine: Machine) -> FakeRuntime:
    """Another agent, which has a second driver, with one pod by each: `web` and `vm`."""
    other = FakeRuntime(machine.world.clock, (Handler("vm", own_kernel=True),), id_prefix="vm-")
    other.registry[IMAGE] = RegistryImage(size=7)
    await machine.kill()
    machine.driver = RoutedRuntime(machine.runtime, Driver(other, frozenset({"vm"}), "vm-"))
    machine.handlers |= {"vm"}
    await machine.start()
    made = {"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "own"}, "handler": "vm"}
    await machine.user.resource(RUNTIME_CLASSES).create(made)
    await machine.wait(1)
    await machine.create()
    await machine.create("vm", runtimeClassName="own")
    await machine.phase("Running")
    await machine.phase("Running", "vm")
    return other


def test_each_pod_runs_with_the_driver_of_its_class() -> None:
    async def story(machine: Machine) -> None:
        other = await with_machines(machine)
        assert [each.pod.name for each in await machine.runtime.sandboxes()] == ["web"]
        assert [each.pod.name for each in await other.sandboxes()] == ["vm"]
        assert container_status(await machine.status("vm"))["containerID"].startswith("fake://vm-")
        assert await other.image(IMAGE) is not None, "pulled where it is needed"
        await machine.pods.delete("vm", "default")
        await machine.gone("vm")
        await machine.wait(5)
        assert await other.sandboxes() == []
        assert (await machine.status())["phase"] == "Running"

    play(story)


def test_a_machine_is_looked_after_while_the_main_driver_is_away() -> None:
    async def story(machine: Machine) -> None:
        other = await with_machines(machine)
        machine.runtime.unplug()
        [before] = await other.containers()
        other.end_container(before.id, 1)
        await machine.wait(30)
        assert container_status(await machine.status("vm"))["restartCount"] == 1
        assert [each.state for each in await other.containers() if each.id != before.id] == ["running"]

    play(story)


def test_the_next_agent_finds_the_pods_of_both() -> None:
    async def story(machine: Machine) -> None:
        other = await with_machines(machine)
        known = {each.id for each in (*await machine.runtime.containers(), *await other.containers())}
        await machine.restart()
        await machine.wait(5)
        assert {each.id for each in (*await machine.runtime.containers(), *await other.containers())} == known
        assert (await machine.status("vm"))["phase"] == "Running"

    play(story)


def test_figures_and_collection_see_both() -> None:
    async def story(machine: Machine) -> None:
        other = await with_machines(machine)
        other.programs["main"] = Program(memory=7)
        stats = PodStats(machine.driver, machine.volumes, machine.settings.log_dir, machine.world.clock)
        assert {each.name for each in await stats.pods()} == {"web", "vm"}
        other.add_image("unused:1", RegistryImage(size=3))
        clock = machine.world.clock
        recorder = cast("Recorder", None)  # nothing fails
        images = Images(machine.driver, KubeletConfiguration(), clock, recorder, InvolvedObject("v1", "Node", "n"))
        await images.look()
        await machine.wait(3600)
        assert await images.free(1, least_age=60) == 3
        assert [each.tags for each in await other.images()] == [(IMAGE,)], "what is in use stays"

    play(story)
