"""Containers that end and sandboxes that die: restarts, their delays, and statuses."""

from __future__ import annotations

import itertools

import pytest

from tarmac.runtimes.fake import FakeProgram
from tests.agent.pods.machine import Machine, container, container_status, play


def test_a_crashing_container_comes_back_later_each_time() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(runs_for=1, exit_code=1)
        created = await machine.create()
        starts: list[float] = []
        for _ in range(12 * 60 * 2):
            await machine.wait(0.5)
            starts = sorted(each.created_at for each in await machine.runtime.containers())
        gaps = [later - earlier - 1 for earlier, later in itertools.pairwise(starts)]
        assert [round(gap) for gap in gaps[:6]] == [0, 10, 20, 40, 80, 160]
        waiting = await machine.waits("CrashLoopBackOff")
        whose = f"web_default({created['metadata']['uid']})"
        assert waiting["message"] == f"back-off 5m0s restarting failed container=main pod={whose}"
        last = container_status(await machine.status())
        assert last["lastState"]["terminated"]["exitCode"] == 1
        assert last["lastState"]["terminated"]["reason"] == "Error"
        assert (await machine.status())["phase"] == "Running"
        events = await machine.events()
        assert ("BackOff", f"Back-off restarting failed container main in pod {whose}") in events

    play(story)


def test_the_back_off_is_forgotten_after_a_long_good_run() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(runs_for=1, exit_code=1)
        await machine.create()
        await machine.wait(25)  # two restarts: the next would wait for 20 seconds
        machine.runtime.programs["main"] = FakeProgram()
        await machine.wait(60)
        await machine.wait(11 * 60)
        machine.runtime.end_container(await machine.id(), 1)
        await machine.wait(1)
        assert await machine.running() == ["main"]

    play(story)


@pytest.mark.parametrize(
    ("policy", "code", "phase"),
    [
        ("Never", 0, "Succeeded"),
        ("Never", 2, "Failed"),
        ("OnFailure", 0, "Succeeded"),
    ],
)
def test_a_pod_that_has_run_its_course_says_how(policy: str, code: int, phase: str) -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(runs_for=2, exit_code=code)
        created = await machine.create(restartPolicy=policy)
        status = await machine.phase(phase)
        assert container_status(status)["state"]["terminated"]["exitCode"] == code
        await machine.wait(60)
        assert machine.calls("create_container") == 1
        uid = created["metadata"]["uid"]
        assert uid not in machine.volumes.mounted
        assert uid not in machine.cgroups.made
        assert await machine.runtime.containers(), "its logs can still be read"

    play(story)


def test_one_of_two_containers_may_end_alone() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["short"] = FakeProgram(runs_for=2)
        await machine.create(containers=[container("short"), container("long")], restartPolicy="OnFailure")
        await machine.wait(10)
        status = await machine.status()
        assert status["phase"] == "Running"
        assert "terminated" in container_status(status, "short")["state"]
        assert await machine.running() == ["long"]

    play(story)


def test_a_container_may_have_its_own_policy_and_rules() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(runs_for=1, exit_code=42)
        rule = {"action": "Restart", "exitCodes": {"operator": "In", "values": [42]}}
        own = {"restartPolicy": "Never", "restartPolicyRules": [rule]}
        await machine.create(container=own, restartPolicy="Never")
        await machine.wait(3)
        assert container_status(await machine.status())["restartCount"] >= 1
        machine.runtime.programs["main"] = FakeProgram(runs_for=1, exit_code=7)
        await machine.phase("Failed", seconds=120)

    play(story)


def test_too_much_memory_is_told_as_what_it_is() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(memory=64 << 20)
        await machine.create(container={"resources": {"limits": {"memory": "32Mi"}}})
        await machine.waits("CrashLoopBackOff")
        assert container_status(await machine.status())["lastState"]["terminated"]["reason"] == "OOMKilled"

    play(story)


def test_an_end_that_nobody_saw_is_a_failure_of_unknown_kind() -> None:
    async def story(machine: Machine) -> None:
        await machine.create(restartPolicy="Never")
        await machine.phase("Running")
        machine.runtime.end_container(await machine.id(), 255, "Unknown")
        status = await machine.phase("Failed")
        assert container_status(status)["state"]["terminated"]["reason"] == "ContainerStatusUnknown"

    play(story)


def test_a_container_that_cannot_be_started_says_why() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(refusal='exec: "nothing": not found in $PATH')
        await machine.create()
        await machine.waits("CrashLoopBackOff")
        assert container_status(await machine.status())["lastState"]["terminated"]["reason"] == "StartError"
        assert ("Failed", 'Error: exec: "nothing": not found in $PATH') in await machine.events()

    play(story)


def test_a_sandbox_that_dies_is_replaced_with_everything_in_it() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["first"] = FakeProgram(runs_for=1)
        await machine.create(initContainers=[container("first")])
        await machine.phase("Running")
        await machine.wait(30)
        (sandbox,) = await machine.runtime.sandboxes()
        machine.runtime.end_sandbox(sandbox.id)
        await machine.wait(5)
        status = await machine.phase("Running")
        assert status["podIP"] == "10.0.0.2"
        assert container_status(status)["restartCount"] == 1
        assert container_status(status, "first")["restartCount"] == 1, "its init containers ran again"
        assert ("SandboxChanged", "Pod sandbox changed, it will be killed and re-created.") in await machine.events()
        ready = [each.pod.attempt for each in await machine.runtime.sandboxes() if each.ready]
        assert ready == [1]

    play(story)


def test_a_sandbox_that_dies_at_once_is_not_made_in_a_tight_loop() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()

        for _ in range(600):
            await machine.wait(0.1)
            for sandbox in await machine.runtime.sandboxes():
                if sandbox.ready:
                    machine.runtime.end_sandbox(sandbox.id)
        assert machine.calls("run_sandbox") < 8

    play(story)


def test_a_new_image_replaces_the_container() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        before = await machine.id()
        machine.runtime.add_image("example.com/app:2")
        edit = [{"op": "replace", "path": "/spec/containers/0/image", "value": "example.com/app:2"}]
        await machine.pods.patch("web", edit, "default", type="json")
        await machine.wait(2)
        assert await machine.id() != before
        assert await machine.running() == ["main"]
        events = await machine.events()
        assert ("Killing", "Container main definition changed, will be restarted") in events

    play(story)


def test_the_termination_message_is_in_the_status() -> None:
    async def story(machine: Machine) -> None:
        created = await machine.create(restartPolicy="Never")
        await machine.phase("Running")
        path = machine.root / "pods" / created["metadata"]["uid"] / "containers" / "main" / "0.message"
        path.write_text("out of cheese")
        machine.runtime.end_container(await machine.id(), 1)
        status = await machine.phase("Failed")
        assert container_status(status)["state"]["terminated"]["message"] == "out of cheese"

    play(story)


def test_the_end_of_the_log_stands_in_for_last_words() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(runs_for=1, exit_code=1, output=("working", "broken"))
        fall_back = {"terminationMessagePolicy": "FallbackToLogsOnError"}
        await machine.create(container=fall_back, restartPolicy="Never")
        status = await machine.phase("Failed")
        assert container_status(status)["state"]["terminated"]["message"] == "working\nbroken\n"

    play(story)
