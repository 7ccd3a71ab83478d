"""Pods keep running while agents, runtimes and servers restart."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.api.schema import JsonObject
from tarmac.runtimes.fake import FakeProgram
from tarmac.runtimes.interface import PodIdentity, RuntimeRefused, SandboxConfig
from tests.agent.pods.machine import Machine, condition, container, container_status, play
from tests.agent.pods.test_probing import COMMAND, Patient


def test_a_new_agent_adopts_what_runs() -> None:
    async def story(machine: Machine) -> None:
        sidecar = {**container("sidecar"), "restartPolicy": "Always"}
        machine.runtime.programs["first"] = FakeProgram(runs_for=1)
        await machine.create(initContainers=[container("first"), sidecar])
        before = await machine.phase("Running")
        ids = await machine.remember_containers()
        calls = machine.calls("create_container")
        await machine.restart()
        await machine.wait(200)
        assert await machine.remember_containers() == ids
        assert machine.calls("create_container") == calls
        assert await machine.status() == before, "the new agent writes no other status"
        await machine.pods.delete("web", "default")
        await machine.gone()

    play(story)


def test_a_restart_of_the_agent_makes_nothing_unready() -> None:
    async def story(machine: Machine) -> None:
        patient = Patient()
        machine.runtime.programs["main"] = patient.program()
        probe = {**COMMAND, "periodSeconds": 30}
        await machine.create(container={"readinessProbe": probe, "startupProbe": COMMAND})
        before = await machine.ready()
        watched: list[str] = []

        async def watch() -> None:
            while True:
                watched.append(condition(await machine.status(), "Ready")["status"])
                await machine.wait(0.05)

        watching = asyncio.create_task(watch())
        await machine.restart()
        await machine.wait(100)
        watching.cancel()
        assert set(watched) == {"True"}
        assert await machine.status() == before

    play(story)


def test_a_crash_while_the_agent_was_away_is_found() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        await machine.kill()
        machine.runtime.end_container(await machine.id(), 1)
        await machine.start()
        await machine.wait(2)
        assert await machine.running() == ["main"]
        assert container_status(await machine.status())["restartCount"] == 1

    play(story)


def test_an_agent_killed_at_any_moment_of_a_start_restarts_nothing() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(starts_after=0.05)
        for method in ("run_sandbox", "create_container", "start_container", "sandbox", "image", "containers"):
            name = method.replace("_", "-")
            machine.runtime.trouble(method, None, times=1, delay=1)
            await machine.create(name)
            await machine.wait(0.5)
            await machine.restart()
            status = await machine.phase("Running", name)
            assert container_status(status)["restartCount"] == 0, method
        sandboxes = await machine.runtime.sandboxes()
        assert len(sandboxes) == 6

    play(story)


def test_without_a_server_pods_are_looked_after_by_the_next_agent_too() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        before = await machine.phase("Running")
        await machine.wait(1)
        machine.unplug_server()
        machine.runtime.end_container(await machine.id(), 1)
        await machine.wait(5)
        assert await machine.running() == ["main"], "the agent restarts it"
        await machine.kill()
        machine.runtime.end_container(await machine.id(), 1)
        await machine.start()
        await machine.wait(20)
        assert await machine.running() == ["main"], "the next agent does too, from the checkpoint"
        assert await machine.status() == before
        machine.plug_server_in()
        await machine.wait(30)
        status = await machine.status()
        assert container_status(status)["restartCount"] == 2, "reported later"
        assert status["startTime"] == before["startTime"]

    play(story)


def test_a_pod_deleted_while_the_agent_was_down_ends() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        await machine.kill()
        await machine.pods.delete("web", "default", grace=0)
        await machine.start()
        await machine.wait(5)
        assert await machine.runtime.sandboxes() == []
        assert not list((machine.root / "pods").iterdir())

    play(story)


def test_orphans_of_the_runtime_are_taken_away() -> None:
    async def story(machine: Machine) -> None:
        config = SandboxConfig(PodIdentity("default", "old", "1234"), "old", str(machine.root / "logs"), "/old")
        await machine.runtime.run_sandbox(config, "")
        await machine.start()
        await machine.wait(2)
        assert await machine.runtime.sandboxes() == []

    play(story, start=False)


def test_orphans_stay_until_the_server_has_been_heard() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        await machine.kill()
        machine.unplug_server()
        for kept in (machine.root / "pods").glob("*/pod.json"):
            kept.unlink()
        await machine.start()
        await machine.wait(200)
        assert await machine.running() == ["main"]
        machine.plug_server_in()
        await machine.wait(60)
        assert await machine.running() == ["main"]
        assert container_status(await machine.status())["restartCount"] == 0

    play(story)


def test_a_runtime_that_goes_away_takes_nothing_with_it() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        before = await machine.phase("Running")
        machine.runtime.unplug()
        await machine.wait(100)
        machine.runtime.plug_in()
        await machine.wait(100)
        assert await machine.running() == ["main"]
        assert await machine.status() == before
        machine.runtime.unplug()
        await machine.create("late")
        await machine.wait(30)
        machine.runtime.plug_in()
        await machine.phase("Running", "late")

    play(story)


def test_a_finished_pod_is_not_run_again_by_a_new_agent() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(runs_for=1)
        await machine.create(restartPolicy="OnFailure")
        before = await machine.phase("Succeeded")
        await machine.kill()
        for sandbox in await machine.runtime.sandboxes():
            await machine.runtime.remove_sandbox(sandbox.id)
        await machine.start()
        await machine.wait(100)
        assert machine.calls("run_sandbox") == 1
        assert await machine.status() == before
        await machine.pods.delete("web", "default")
        await machine.gone()

    play(story)


def test_containers_that_need_secrets_wait_for_the_server() -> None:
    async def story(machine: Machine) -> None:
        machine.sources.secrets["default/key"] = {"data": {"value": "c2VjcmV0"}}
        value = {"secretKeyRef": {"name": "key", "key": "value"}}
        await machine.create(container={"env": [{"name": "KEY", "valueFrom": value}]})
        await machine.phase("Running")
        await machine.wait(1)
        kept = next((machine.root / "pods").glob("*/pod.json"))
        assert kept.stat().st_mode & 0o777 == 0o600
        assert b"c2VjcmV0" not in kept.read_bytes()
        machine.unplug_server()
        machine.sources.away = True
        await machine.restart()
        machine.runtime.end_container(await machine.id(), 1)
        await machine.wait(30)
        assert await machine.running() == []
        machine.sources.away = False
        machine.plug_server_in()
        await machine.wait(60)
        assert await machine.running() == ["main"]

    play(story)


def test_a_pod_is_kept_before_anything_of_it_is_made() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.trouble("create_container", None, delay=0.1)
        await machine.create()
        await machine.wait(0.05)
        assert await machine.runtime.sandboxes()
        await machine.kill()
        machine.unplug_server()
        await machine.start()
        await machine.wait(30)
        assert await machine.running() == ["main"], "from the checkpoint, without the server"
        assert machine.calls("run_sandbox") == 1

    play(story)


def test_nothing_is_written_when_nothing_changes() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        await machine.wait(5)
        before: JsonObject = await machine.get()
        writes, calls = machine.manager.writer.writes, len(machine.runtime.calls)
        await machine.wait(590)
        assert machine.manager.writer.writes == writes
        assert (await machine.get())["metadata"]["resourceVersion"] == before["metadata"]["resourceVersion"]
        assert len(machine.runtime.calls) - calls < 40, "three requests a minute"

    play(story)


def test_a_start_takes_one_write_and_no_question_too_many() -> None:
    async def story(machine: Machine) -> None:
        await machine.create("warm")
        await machine.phase("Running", "warm")
        writes, calls = machine.manager.writer.writes, len(machine.runtime.calls)
        await machine.create()
        await machine.phase("Running")
        await machine.wait(5)
        assert machine.manager.writer.writes - writes == 1
        asked = [method for method, _ in machine.runtime.calls[calls:]]
        needed = ["run_sandbox", "sandbox", "image", "create_container", "start_container", "container"]
        assert sorted(asked) == sorted(needed)

    play(story)


def test_a_created_container_that_cannot_start_is_replaced() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.trouble("start_container", None, times=1, delay=5)
        await machine.create()
        await machine.wait(1)
        await machine.kill()
        machine.runtime.trouble("start_container", RuntimeRefused("its files are gone"), times=1)
        await machine.start()
        status = await machine.phase("Running")
        assert machine.calls("remove_container") == 1
        assert container_status(status)["restartCount"] <= 1

    play(story)


@pytest.mark.parametrize("policy", ["Always", "Never"])
def test_a_start_that_the_runtime_gave_up_with_its_agent_is_no_crash(policy: str) -> None:
    async def story(machine: Machine) -> None:
        cut = "failed to create containerd task: failed to create shim task: context canceled: unknown"
        machine.runtime.programs["main"] = FakeProgram(refusal=cut)
        machine.runtime.trouble("image", None, times=1, delay=1)
        await machine.create(restartPolicy=policy)
        await machine.wait(3)
        machine.runtime.programs["main"] = FakeProgram()
        status = await machine.phase("Running")
        assert container_status(status)["restartCount"] == 0
        assert container_status(status)["lastState"] == {}
        assert len(await machine.runtime.containers()) == 1

    play(story)
