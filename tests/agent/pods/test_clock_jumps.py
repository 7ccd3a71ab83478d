"""The machine's clock is set forward or back: no pod waits longer, and none ends because of it."""

from __future__ import annotations

import pytest

from tarmac.runtimes.fake import FakeProgram
from tests.agent.pods.machine import Machine, container_status, play
from tests.agent.pods.test_probing import COMMAND, Patient

DAY = 24 * 3600.0


def jump(machine: Machine, seconds: float) -> None:
    """Set the clocks of agent, runtime and server, which share a machine."""
    machine.world.clock.jump(seconds)
    machine.world.clocks["agent"].jump(seconds)


@pytest.mark.parametrize("seconds", [-365 * DAY, -DAY, -100, 100, DAY], ids=str)
def test_a_crashing_container_comes_back_in_time(seconds: float) -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(runs_for=1, exit_code=1)
        await machine.create()
        await machine.wait(60)
        await machine.waits("CrashLoopBackOff")
        before = machine.calls("create_container")
        jump(machine, seconds)
        await machine.wait(310)
        made = machine.calls("create_container") - before
        assert 1 <= made <= 4, "the back-off is neither extended nor skipped"
        machine.runtime.programs["main"] = FakeProgram()
        await machine.wait(310)
        assert await machine.running() == ["main"]

    play(story)


@pytest.mark.parametrize("seconds", [-DAY, DAY], ids=str)
def test_a_pull_that_failed_is_tried_again_in_time(seconds: float) -> None:
    async def story(machine: Machine) -> None:
        await machine.create(container={"image": "example.com/none:1"})
        await machine.waits("ImagePullBackOff")
        jump(machine, seconds)
        before = machine.calls("pull")
        await machine.wait(310)
        assert 1 <= machine.calls("pull") - before <= 6

    play(story)


@pytest.mark.parametrize("seconds", [-DAY, DAY], ids=str)
def test_a_probe_begins_in_time(seconds: float) -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = Patient().program()
        await machine.create(container={"readinessProbe": {**COMMAND, "initialDelaySeconds": 20}})
        await machine.phase("Running")
        await machine.restart()
        jump(machine, seconds)
        await machine.restart()
        await machine.ready(seconds=40)

    play(story)


@pytest.mark.parametrize("seconds", [-DAY, DAY], ids=str)
def test_a_pod_is_active_as_long_as_it_said(seconds: float) -> None:
    async def story(machine: Machine) -> None:
        await machine.create(activeDeadlineSeconds=100)
        await machine.phase("Running")
        await machine.wait(10)
        jump(machine, seconds)
        await machine.wait(50)
        assert (await machine.status())["phase"] == "Running"
        assert (await machine.phase("Failed", seconds=60))["reason"] == "DeadlineExceeded"

    play(story)


@pytest.mark.parametrize("seconds", [-DAY, DAY], ids=str)
def test_a_sandbox_that_died_is_made_again_in_time(seconds: float) -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        jump(machine, seconds)
        for sandbox in await machine.runtime.sandboxes():
            await machine.runtime.stop_sandbox(sandbox.id)
        await machine.wait(60)
        assert await machine.running() == ["main"]
        assert container_status(await machine.status())["restartCount"] <= 2

    play(story)
