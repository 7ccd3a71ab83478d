"""A node with two drivers: each pod is run by its own, and metrics, collection and adoption cover both."""

from __future__ import annotations

from typing import cast

from tarmac.agent.collection.unusedimages import ImageCollector
from tarmac.agent.config.kubelet import KubeletConfiguration
from tarmac.agent.pods.manager import RUNTIME_CLASSES
from tarmac.agent.stats.podstats import PodStats
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.runtimes.fake import FakeProgram, FakeRuntime, RegistryImage
from tarmac.runtimes.interface import NO_EXEC, Handler
from tarmac.runtimes.routed import RoutedDriver, RoutedRuntime
from tests.agent.pods.machine import IMAGE, Machine, condition, container_status, play


async def with_machines(machine: Machine) -> FakeRuntime:
    """Restart the agent with a second driver and one pod on each: `web` and `vm`; return the second runtime."""
    other = FakeRuntime(machine.world.clock, (Handler("vm", own_kernel=True),), id_prefix="vm-")
    other.registry[IMAGE] = RegistryImage(size=7)
    await machine.kill()
    machine.driver = RoutedRuntime(machine.runtime, RoutedDriver(other, frozenset({"vm"}), "vm-"))
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
        assert await other.image(IMAGE) is not None, "the image is pulled for the pod's own driver"
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


async def resize(machine: Machine, cpu: str, memory: str) -> None:
    amounts = {"cpu": cpu, "memory": memory}
    wanted = {"name": "main", "resources": {"requests": amounts, "limits": amounts}}
    await machine.pods.patch("sized", {"spec": {"containers": [wanted]}}, "default", subresource="resize")
    await machine.wait(1)


def test_a_container_for_debugging_waits_beside_a_machine_and_says_what_to_use() -> None:
    async def story(machine: Machine) -> None:
        other = await with_machines(machine)
        added = {"name": "debugger", "image": "docker.io/busybox:1", "terminationMessagePolicy": "File"}
        patch = {"spec": {"ephemeralContainers": [added]}}
        await machine.pods.patch("vm", patch, "default", type="strategic", subresource="ephemeralcontainers")
        await machine.wait(30)
        status = await machine.status("vm")
        waits = container_status(status, "debugger")["state"]["waiting"]
        assert (waits["reason"], waits["message"]) == ("CreateContainerConfigError", NO_EXEC)
        assert container_status(status)["restartCount"] == 0
        assert len(await other.containers()) == 1

    play(story)


def test_a_machine_gets_processors_while_it_runs_and_memory_when_it_starts_again() -> None:
    async def story(machine: Machine) -> None:
        other = await with_machines(machine)
        amounts = {"cpu": "1", "memory": "256Mi"}
        sized = {"resources": {"requests": amounts, "limits": amounts}}
        await machine.create("sized", runtimeClassName="own", container=sized)
        await machine.phase("Running", "sized")
        await resize(machine, "2", "256Mi")
        status = await machine.status("sized")
        assert container_status(status)["allocatedResources"]["cpu"] == "2"
        assert [name for name, _ in other.calls].count("update_container") == 1, "the driver applies it"
        await resize(machine, "2", "512Mi")
        status = await machine.status("sized")
        pending = condition(status, "PodResizePending")
        assert (pending["reason"], pending["message"]) == (
            "Infeasible",
            "memory of a virtual machine changes with its restart",
        )
        assert container_status(status)["allocatedResources"] == {"cpu": "2", "memory": "256Mi"}
        assert container_status(status)["restartCount"] == 0
        await resize(machine, "1", "256Mi")
        assert not condition(await machine.status("sized"), "PodResizePending")

    play(story)


def test_figures_and_collection_see_both() -> None:
    async def story(machine: Machine) -> None:
        other = await with_machines(machine)
        other.programs["main"] = FakeProgram(memory=7)
        stats = PodStats(machine.driver, machine.volumes, machine.settings.log_dir, machine.world.clock)
        assert {each.name for each in await stats.pods()} == {"web", "vm"}
        other.add_image("unused:1", RegistryImage(size=3))
        clock = machine.world.clock
        recorder = cast("Recorder", None)  # unused: nothing fails
        images = ImageCollector(
            machine.driver, KubeletConfiguration(), clock, recorder, InvolvedObject("v1", "Node", "n")
        )
        await images.refresh()
        await machine.wait(3600)
        assert await images.free(1, least_age=60) == 3
        assert [each.tags for each in await other.images()] == [(IMAGE,)], "images in use stay"

    play(story)


def test_a_machine_has_its_image_before_its_volumes_which_begin_with_it() -> None:
    async def story(machine: Machine) -> None:
        other = await with_machines(machine)
        other.registry["example.com/os:1"] = RegistryImage(size=9)
        machine.volumes.missing["boot"] = "the disk is being filled"
        boot = {"name": "boot", "emptyDir": {}}
        await machine.wait(1)
        await machine.create("os", container={"image": "example.com/os:1"}, runtimeClassName="vm", volumes=[boot])
        await machine.wait(10)
        assert await other.image("example.com/os:1") is not None
        assert [each.pod.name for each in await other.sandboxes() if each.ready] == ["vm", "os"]
        message = 'MountVolume.SetUp failed for volume "boot" : the disk is being filled'
        assert ("FailedMount", message) in await machine.events("os")
        machine.volumes.missing.clear()
        await machine.phase("Running", "os")

    play(story)


def test_a_machine_whose_volume_changes_is_told_of_once_until_it_is_restarted() -> None:
    async def story(machine: Machine) -> None:
        other = await with_machines(machine)
        settings = {"name": "settings", "configMap": {"name": "settings"}}
        await machine.create("os", runtimeClassName="vm", volumes=[settings])
        await machine.phase("Running", "os")
        told = ("VolumeNotUpdated", 'Volume "settings" has changed; the machine sees it when it is restarted')

        async def count() -> int:
            return (await machine.events("os")).count(told)

        uid = (await machine.pods.get("os", "default"))["metadata"]["uid"]
        assert await count() == 0
        machine.volumes.changed = {"settings"}
        for _ in range(2):
            machine.manager.wake(uid)
            await machine.wait(5)
            assert await count() == 1
        assert [each.state for each in await other.containers()] == ["running", "running"]

    play(story)


def test_files_that_come_before_a_machine_starts_have_not_changed() -> None:
    async def story(machine: Machine) -> None:
        other = await with_machines(machine)
        other.registry["example.com/os:1"] = RegistryImage(takes=30)
        settings = {"name": "settings", "configMap": {"name": "settings"}}
        machine.volumes.changed = {"settings"}  # written for the first time, during the pull
        container = {"image": "example.com/os:1"}
        await machine.create("os", container=container, runtimeClassName="vm", volumes=[settings])
        await machine.wait(5)
        machine.manager.wake((await machine.pods.get("os", "default"))["metadata"]["uid"])
        await machine.wait(5)
        machine.volumes.changed = set()
        await machine.phase("Running", "os", seconds=60)
        assert "VolumeNotUpdated" not in {reason for reason, _ in await machine.events("os")}

    play(story)
