"""Pods terminate gracefully, within their grace period, in order, and leave nothing behind."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.runtimes.fake import FakeProgram
from tarmac.runtimes.interface import RuntimeRefused
from tests.agent.pods.machine import Machine, condition, container, container_status, play


def test_a_deleted_pod_ends_and_is_gone() -> None:
    async def story(machine: Machine) -> None:
        created = await machine.create()
        await machine.phase("Running")
        uid = created["metadata"]["uid"]
        await machine.pods.delete("web", "default")
        await machine.gone(seconds=5)
        await machine.wait(1)
        assert await machine.runtime.sandboxes() == []
        assert await machine.runtime.containers() == []
        assert not machine.volumes.mounted
        assert not machine.cgroups.made
        assert not (machine.root / "pods" / uid).exists()
        assert not list((machine.root / "logs").iterdir())
        assert machine.manager.pods() == []
        assert ("Killing", "Stopping container main") in await machine.events()

    play(story)


def test_a_deaf_container_is_killed_when_its_grace_is_over() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(code_on_term=None)
        await machine.create(terminationGracePeriodSeconds=20)
        await machine.phase("Running")
        await machine.pods.delete("web", "default")
        await machine.wait(19)
        assert await machine.running() == ["main"]
        await machine.gone(seconds=3)

    play(story)


def test_a_second_delete_may_shorten_the_grace() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(code_on_term=None)
        await machine.create(terminationGracePeriodSeconds=600)
        await machine.phase("Running")
        await machine.pods.delete("web", "default")
        await machine.wait(5)
        await machine.pods.delete("web", "default", grace=10)
        await machine.wait(8)
        assert await machine.running() == ["main"]
        await machine.gone(seconds=4)

    play(story)


def test_a_forced_delete_leaves_nothing_running() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(code_on_term=None)
        await machine.create(terminationGracePeriodSeconds=600)
        await machine.phase("Running")
        await machine.pods.delete("web", "default", grace=0)
        await machine.gone(seconds=1)
        await machine.wait(3)
        assert await machine.running() == []
        await machine.wait(3)
        assert await machine.runtime.sandboxes() == []

    play(story)


def test_the_last_hook_counts_against_the_grace() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(code_on_term=None)
        await machine.create(
            container={"lifecycle": {"preStop": {"sleep": {"seconds": 12}}}}, terminationGracePeriodSeconds=20
        )
        await machine.phase("Running")
        await machine.pods.delete("web", "default")
        await machine.wait(11)
        assert machine.calls("stop_container") == 0
        await machine.wait(2)
        assert machine.calls("stop_container") == 1
        await machine.gone(seconds=9)

    play(story)


def test_a_hook_that_takes_too_long_is_cut_short() -> None:
    async def story(machine: Machine) -> None:
        await machine.create(
            container={"lifecycle": {"preStop": {"sleep": {"seconds": 30}}}}, terminationGracePeriodSeconds=40
        )
        await machine.phase("Running")
        await machine.pods.delete("web", "default", grace=5)
        await machine.gone(seconds=6)

    play(story)


def test_sidecars_end_last_and_in_reverse() -> None:
    async def story(machine: Machine) -> None:
        sidecars = [{**container(name), "restartPolicy": "Always"} for name in ("a", "b")]
        await machine.create(initContainers=sidecars, container={"lifecycle": {"preStop": {"sleep": {"seconds": 5}}}})
        await machine.phase("Running")
        await machine.pods.delete("web", "default")
        await machine.wait(4)
        assert await machine.running() == ["a", "b", "main"]
        names = await machine.remember_containers()
        await machine.gone(seconds=10)
        stopped = [names[about] for method, about in machine.runtime.calls if method == "stop_container"]
        assert stopped == ["main", "b", "a"]

    play(story)


def test_a_pod_deleted_before_it_started_ends_too() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.trouble("run_sandbox", None, times=1, delay=60)
        await machine.create()
        await machine.wait(5)
        await machine.pods.delete("web", "default")
        await machine.gone(seconds=5)
        assert await machine.running() == []

    play(story)


def test_a_deleted_pod_tells_how_its_containers_ended() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(code_on_term=9)
        await machine.create(metadata={"finalizers": ["example.com/look"]})
        await machine.phase("Running")
        await machine.pods.delete("web", "default")
        status = await machine.phase("Failed")
        assert container_status(status)["state"]["terminated"]["exitCode"] == 9
        assert container_status(status)["ready"] is False
        await machine.pods.patch("web", {"metadata": {"finalizers": None}}, "default")
        await machine.gone()

    play(story)


def test_a_pod_may_not_be_active_longer_than_it_said() -> None:
    async def story(machine: Machine) -> None:
        await machine.create(activeDeadlineSeconds=30)
        await machine.phase("Running")
        await machine.wait(25)
        assert (await machine.status())["phase"] == "Running"
        status = await machine.phase("Failed", seconds=10)
        assert status["reason"] == "DeadlineExceeded"
        assert status["message"] == "Pod was active on the node longer than the specified deadline"
        await machine.wait(5)
        assert await machine.running() == []

    play(story)


def test_an_evicted_pod_fails_with_the_reason() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        found = machine.manager.find("default", "web")
        assert found is not None
        machine.manager.evict(found, "Evicted", "The node was low on resource: memory.", 0)
        status = await machine.phase("Failed")
        assert (status["reason"], status["message"]) == ("Evicted", "The node was low on resource: memory.")
        assert condition(status, "DisruptionTarget")["reason"] == "TerminationByKubelet"
        await machine.wait(5)
        assert await machine.running() == []
        assert "terminated" in container_status(await machine.status())["state"]

    play(story)


def test_draining_ends_ordinary_pods_first() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["slow"] = FakeProgram(code_on_term=None)
        await machine.create("plain", containers=[container("slow")])
        await machine.phase("Running", "plain")
        await machine.manager.drain(10, 5)
        status = await machine.status("plain")
        assert status["phase"] == "Failed"
        assert status["reason"] == "Terminated"
        assert await machine.running() == []
        await machine.create("late")
        assert (await machine.phase("Failed", "late"))["reason"] == "NodeShutdown"

    play(story)


def test_a_container_that_cannot_be_ended_is_tried_again() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.trouble("stop_container", RuntimeRefused("not now"), times=3)
        await machine.create()
        await machine.phase("Running")
        await machine.pods.delete("web", "default")
        await machine.wait(3)
        assert machine.calls("stop_container") == 2
        await machine.gone(seconds=10)
        assert "FailedKillPod" in [reason for reason, _ in await machine.events()]

    play(story)


def test_the_node_gives_up_a_pod_whose_object_is_replaced() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(code_on_term=None)
        await machine.create()
        await machine.phase("Running")
        await machine.pods.delete("web", "default", grace=0)
        machine.runtime.programs["main"] = FakeProgram()
        again = await machine.create()
        await machine.phase("Running")
        await machine.wait(10)
        (sandbox,) = await machine.runtime.sandboxes()
        assert sandbox.pod.uid == again["metadata"]["uid"]
        assert container_status(await machine.status())["restartCount"] == 0

    play(story)


def test_remains_of_a_rejected_pod_from_an_earlier_agent_are_removed() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.trouble("run_sandbox", None, delay=5)
        await machine.create(container={"resources": {"requests": {"cpu": "1"}}})
        await machine.wait(1)
        await machine.kill()
        assert machine.volumes.mounted
        machine.node["status"]["allocatable"]["cpu"] = "500m"
        await machine.start()
        assert (await machine.phase("Failed"))["reason"] == "OutOfcpu"
        await machine.pods.delete("web", "default")
        await machine.gone()
        await machine.wait(1)
        assert not machine.volumes.mounted

    play(story)


@pytest.mark.parametrize("turns", range(6))
def test_an_agent_that_stops_just_when_a_pass_is_cut_short_stops(turns: int) -> None:
    """Both are cancellations: a worker that took its own for that of its pass would never stop."""

    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(starts_after=30)
        created = await machine.create()
        await machine.wait(5)
        stopping = asyncio.create_task(machine.kill())
        for _ in range(turns):
            await asyncio.sleep(0)
        machine.manager.evict(created, "Evicted", "no room")
        async with asyncio.timeout(60):
            await stopping
        await machine.start()

    play(story)
