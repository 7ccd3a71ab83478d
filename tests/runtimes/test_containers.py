"""A container is created, runs, ends with a code, and is listed the whole time."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tarmac.runtimes import labels
from tarmac.runtimes.interface import Resources, RuntimeContainer, RuntimeFault, RuntimeObjectNotFound, RuntimeRefused
from tests.runtimes.machine import Machine, Running
from tests.support.containerd import BUSYBOX


async def ended(running: Running) -> RuntimeContainer:
    """Return the container, once it has ended."""
    async with asyncio.timeout(20):
        while (now := await running.now()).state != "exited":
            await asyncio.sleep(0.02)
    return now


async def test_a_container_is_created_then_running_then_exited(machine: Machine) -> None:
    pod = machine.sandbox()
    sandbox_id = await machine.make(pod)
    container_id = await machine.runtime.create_container(sandbox_id, machine.waits(), pod)
    created = await machine.runtime.container(container_id)
    assert (created.state, created.started_at, created.finished_at) == ("created", 0, 0)
    await machine.runtime.start_container(container_id)
    await Running(machine.runtime, pod, sandbox_id, container_id).log("hello\n")  # it handles SIGTERM by now
    running = await machine.runtime.container(container_id)
    assert (running.state, running.finished_at) == ("running", 0)
    assert running.created_at <= running.started_at
    await machine.runtime.stop_container(container_id, 5)
    exited = await machine.runtime.container(container_id)
    assert (exited.state, exited.exit_code) == ("exited", machine.asked_code)
    assert exited.started_at <= exited.finished_at


async def test_a_container_says_what_it_was_given(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    now = await running.now()
    assert (now.name, now.attempt, now.image) == ("main", 0, BUSYBOX)
    assert now.image_id
    assert now.sandbox_id == running.sandbox_id
    assert now.labels[labels.CONTAINER_NAME] == "main"
    assert now.labels[labels.POD_UID] == running.pod.pod.uid
    assert now.log_path == f"{running.pod.log_directory}/main.log"


async def test_containers_are_found_by_their_pod(machine: Machine) -> None:
    first, second = await machine.run(machine.waits()), await machine.run(machine.waits())
    [listed] = await machine.runtime.containers(first.pod.pod.uid)
    assert (listed.id, listed.sandbox_id, listed.state) == (first.id, first.sandbox_id, "running")
    assert {first.id, second.id} <= {each.id for each in await machine.runtime.containers()}


@pytest.mark.parametrize(("code", "reason"), [(0, "Completed"), (3, "Error")])
async def test_a_container_that_ends_by_itself_keeps_its_code(machine: Machine, code: int, reason: str) -> None:
    if code:
        machine.needs("codes")
    exited = await ended(await machine.run(machine.exits(code)))
    assert (exited.exit_code, exited.reason) == (code, reason)


async def test_a_container_that_ignores_signals_is_killed_after_its_grace_period(machine: Machine) -> None:
    running = await machine.run(machine.deaf())
    await running.log("deaf")
    began = time.monotonic()
    await machine.runtime.stop_container(running.id, 1)
    assert 0.9 < time.monotonic() - began < 10
    assert (await running.now()).exit_code == 137


async def test_stopping_and_removing_twice_is_no_complaint(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    await machine.runtime.stop_container(running.id, 5)
    await machine.runtime.stop_container(running.id, 5)
    await machine.runtime.remove_container(running.id)
    await machine.runtime.remove_container(running.id)
    await machine.runtime.stop_container(running.id, 5)
    with pytest.raises(RuntimeObjectNotFound):
        await running.now()


async def test_a_running_container_can_be_removed(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    await machine.runtime.remove_container(running.id)
    assert await machine.runtime.containers(running.pod.pod.uid) == []


async def test_a_container_starts_once(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    with pytest.raises(RuntimeRefused, match="state"):
        await machine.runtime.start_container(running.id)


async def test_one_attempt_of_a_name_has_one_container(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    with pytest.raises(RuntimeRefused, match="reserve"):
        await machine.runtime.create_container(running.sandbox_id, machine.waits(), running.pod)


async def test_a_program_that_is_not_in_the_image_is_a_refusal_and_an_exit(machine: Machine) -> None:
    pod = machine.sandbox()
    sandbox_id = await machine.make(pod)
    container_id = await machine.runtime.create_container(sandbox_id, machine.cannot_start(), pod)
    with pytest.raises(RuntimeRefused, match=r"(?i)no such file or directory"):
        await machine.runtime.start_container(container_id)
    failed = await machine.runtime.container(container_id)
    assert (failed.state, failed.exit_code, failed.reason) == ("exited", 128, "StartError")


async def test_creating_a_container_without_a_sandbox_or_an_image_fails(machine: Machine) -> None:
    pod = machine.sandbox()
    with pytest.raises(RuntimeFault):
        await machine.runtime.create_container("nonesuch", machine.waits(), pod)
    sandbox_id = await machine.make(pod)
    with pytest.raises(RuntimeObjectNotFound):
        await machine.runtime.create_container(sandbox_id, replace(machine.waits(), image="x.test/none:1"), pod)


async def test_output_is_in_the_log_with_its_time_and_stream(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    moment, rest = (await running.log("hello\n")).splitlines()[0].split(" ", 1)
    assert rest == "stdout F hello"
    assert moment.startswith("20")
    assert "T" in moment


async def test_a_log_that_was_moved_away_is_begun_anew(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    log = Path((await running.now()).log_path)
    log.rename(log.with_suffix(".1"))
    await machine.runtime.reopen_log(running.id)
    assert log.exists()


async def test_a_command_has_its_output_and_its_code(machine: Machine) -> None:
    machine.needs("exec")
    running = await machine.run(machine.waits())
    result = await machine.runtime.exec(running.id, ["sh", "-c", "echo out; echo err >&2; exit 5"], 10)
    assert (result.stdout, result.stderr, result.exit_code) == (b"out\n", b"err\n", 5)


async def test_a_command_that_takes_too_long_is_a_timeout(machine: Machine) -> None:
    machine.needs("exec")
    running = await machine.run(machine.slow_exec())
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        await machine.runtime.exec(running.id, ["sleep", "10"], 1)
    assert time.monotonic() - began < 9.5


async def test_no_command_runs_in_what_has_ended(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    await machine.runtime.stop_container(running.id, 5)
    with pytest.raises(RuntimeFault):
        await machine.runtime.exec(running.id, ["true"], 5)


async def test_a_specification_can_be_changed_until_the_container_starts(machine: Machine) -> None:
    """Classes are added before the first process runs. The fake keeps the specification, containerd uses it."""
    machine.needs("specification")
    pod = machine.sandbox()
    made = await machine.runtime.create_container(await machine.make(pod), machine.waits(), pod)
    changes = {"linux": {"resources": {"pids": {"limit": 33}}}}
    for _ in range(2):
        await machine.runtime.amend_spec(made, changes)
    await machine.runtime.start_container(made)
    assert (await machine.runtime.container(made)).state == "running"
    if machine.real and machine.handler == "runc":
        [file] = Path("/sys/fs/cgroup").glob(f"pids{pod.cgroup_parent}/{made}/pids.max")
        assert file.read_text().strip() == "33"


async def test_limits_of_a_running_container_can_be_changed(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    await machine.runtime.update_container(running.id, Resources(cpu_shares=512, memory_limit=64 << 20))
    assert (await running.now()).state == "running"


async def test_running_containers_and_ready_sandboxes_have_a_usage(machine: Machine) -> None:
    running = await machine.run(machine.waits())
    containers = {each.id: each for each in await machine.runtime.container_usage()}
    assert running.id in containers
    sandboxes = {each.id: each for each in await machine.runtime.sandbox_usage()}
    assert abs(sandboxes[running.sandbox_id].at - time.time()) < 60
