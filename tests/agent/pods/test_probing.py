"""Probes decide when a container counts as started, live and ready, and when it restarts."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tarmac.api.schema import JsonObject
from tarmac.runtimes.fake import FakeProgram
from tarmac.runtimes.interface import ExecResult
from tests.agent.pods.machine import Machine, condition, container, container_status, play

COMMAND: JsonObject = {"exec": {"command": ["check"]}, "periodSeconds": 2}


class Patient:
    """A program whose health a test sets."""

    def __init__(self, well: bool = True) -> None:
        self.well = well
        self.asked = 0

    def answer(self, command: Sequence[str]) -> ExecResult:
        self.asked += 1
        return ExecResult(b"", b"" if self.well else b"not well", 0 if self.well else 1)

    def program(self) -> FakeProgram:
        return FakeProgram(exec=self.answer)


def test_a_pod_is_ready_when_its_probe_says_so() -> None:
    async def story(machine: Machine) -> None:
        patient = Patient(well=False)
        machine.runtime.programs["main"] = patient.program()
        await machine.create(container={"readinessProbe": COMMAND})
        status = await machine.phase("Running")
        assert container_status(status)["ready"] is False
        assert condition(status, "Ready")["message"] == "containers with unready status: [main]"
        patient.well = True
        await machine.ready(seconds=3)
        patient.well = False
        await machine.wait(4)
        assert container_status(await machine.status())["ready"] is True, "three failures in a row are needed"
        await machine.ready(wanted="False", seconds=4)
        assert ("Unhealthy", "Readiness probe failed: not well") in await machine.events()
        assert container_status(await machine.status())["restartCount"] == 0

    play(story)


def test_a_container_that_is_not_live_is_restarted() -> None:
    async def story(machine: Machine) -> None:
        patient = Patient()
        machine.runtime.programs["main"] = patient.program()
        await machine.create(container={"livenessProbe": COMMAND})
        await machine.ready()
        patient.well = False
        await machine.wait(7)
        patient.well = True
        await machine.wait(2)
        status = container_status(await machine.status())
        assert status["restartCount"] == 1
        events = await machine.events()
        assert ("Killing", "Container main failed liveness probe, will be restarted") in events

    play(story)


@pytest.mark.parametrize("kind", ["liveness", "startup"])
def test_a_container_that_fails_its_probe_each_time_waits_longer_before_each_start(kind: str) -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = Patient(well=False).program()
        await machine.create(container={f"{kind}Probe": {**COMMAND, "failureThreshold": 1}})
        await machine.wait(120)
        status = container_status(await machine.status())
        assert 3 <= status["restartCount"] <= 5, "at once, after 10 s, after 20 s, after 40 s"
        assert "BackOff" in [reason for reason, _ in await machine.events()]

    play(story)


def test_a_slow_starter_is_left_in_peace_until_it_has_started() -> None:
    async def story(machine: Machine) -> None:
        patient = Patient(well=False)
        machine.runtime.programs["main"] = patient.program()
        await machine.create(container={"startupProbe": {**COMMAND, "failureThreshold": 30}, "livenessProbe": COMMAND})
        await machine.wait(30)
        status = container_status(await machine.status())
        assert (status["started"], status["ready"], status["restartCount"]) == (False, False, 0)
        patient.well = True
        await machine.ready(seconds=4)
        assert container_status(await machine.status())["started"] is True

    play(story)


def test_a_container_that_never_starts_is_restarted() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = Patient(well=False).program()
        await machine.create(container={"startupProbe": {**COMMAND, "failureThreshold": 2}})
        await machine.wait(8)
        assert container_status(await machine.status())["restartCount"] >= 1
        events = await machine.events()
        assert ("Killing", "Container main failed startup probe, will be restarted") in events

    play(story)


def test_a_sidecar_holds_up_the_next_until_it_has_started() -> None:
    async def story(machine: Machine) -> None:
        patient = Patient(well=False)
        machine.runtime.programs["sidecar"] = patient.program()
        probe = {**COMMAND, "failureThreshold": 30}
        sidecar = {**container("sidecar"), "restartPolicy": "Always", "startupProbe": probe}
        await machine.create(initContainers=[sidecar])
        await machine.wait(10)
        assert await machine.running() == ["sidecar"]
        assert (await machine.status())["phase"] == "Pending"
        patient.well = True
        await machine.ready(seconds=4)

    play(story)


def test_a_probe_that_hangs_has_failed() -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["main"] = FakeProgram(exec_takes=100)
        await machine.create(container={"readinessProbe": {**COMMAND, "timeoutSeconds": 1}})
        await machine.wait(10)
        assert ("Unhealthy", 'Readiness probe failed: command "check" timed out') in await machine.events()

    play(story)


def test_probes_begin_after_their_delay() -> None:
    async def story(machine: Machine) -> None:
        patient = Patient()
        machine.runtime.programs["main"] = patient.program()
        await machine.create(container={"readinessProbe": {**COMMAND, "initialDelaySeconds": 20}})
        await machine.wait(19)
        assert patient.asked == 0
        await machine.ready(seconds=3)

    play(story)


def test_the_grace_of_a_probe_holds_for_what_it_ends() -> None:
    async def story(machine: Machine) -> None:
        patient = Patient(well=False)
        machine.runtime.programs["main"] = FakeProgram(exec=patient.answer, code_on_term=None)
        probe = {**COMMAND, "failureThreshold": 1, "terminationGracePeriodSeconds": 3}
        await machine.create(container={"livenessProbe": probe}, terminationGracePeriodSeconds=600)
        await machine.wait(6)
        assert container_status(await machine.status())["restartCount"] == 1

    play(story)


def test_a_connection_that_is_refused_is_told_in_well_known_words() -> None:
    async def story(machine: Machine) -> None:
        await machine.create("tcp", container={"readinessProbe": {"tcpSocket": {"port": 80}}})
        await machine.create("http", container={"readinessProbe": {"httpGet": {"port": 80, "path": "/ok"}}})
        await machine.create("grpc", container={"readinessProbe": {"grpc": {"port": 80}}})
        await machine.wait(5)
        address = (await machine.status("tcp"))["podIP"]
        failed = "Readiness probe failed: "
        refused = f"dial tcp {address}:80: connect: connection refused"
        assert ("Unhealthy", failed + refused) in await machine.events("tcp")
        address = (await machine.status("http"))["podIP"]
        refused = f'Get "http://{address}:80/ok": dial tcp {address}:80: connect: connection refused'
        assert ("Unhealthy", failed + refused) in await machine.events("http")
        assert any("failed to connect service" in message for _, message in await machine.events("grpc"))

    play(story)


def test_a_readiness_gate_has_to_open_too() -> None:
    async def story(machine: Machine) -> None:
        await machine.create(readinessGates=[{"conditionType": "example.com/fed"}])
        await machine.phase("Running")
        found = condition(await machine.status(), "Ready")
        assert found["reason"] == "ReadinessGatesNotReady"
        gate = {"type": "example.com/fed", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        await machine.pods.patch(
            "web", {"status": {"conditions": [gate]}}, "default", type="strategic", subresource="status"
        )
        status = await machine.ready()
        assert condition(status, "example.com/fed")["status"] == "True", "the condition of the other writer stays"

    play(story)


def test_a_paused_machine_is_not_ready_and_is_not_probed() -> None:
    async def story(machine: Machine) -> None:
        patient = Patient()
        machine.runtime.programs["main"] = patient.program()
        await machine.create(container={"readinessProbe": COMMAND, "livenessProbe": COMMAND})
        await machine.ready()
        (running,) = await machine.runtime.containers()
        machine.runtime.stand_still(running.id, "MachinePaused")
        patient.well = False
        status = await machine.ready(wanted="False", seconds=2)
        assert condition(status, "Ready")["reason"] == "MachinePaused"
        assert "paused" in condition(status, "Ready")["message"]
        assert condition(status, "ContainersReady")["reason"] == "ContainersNotReady"
        asked = patient.asked
        await machine.wait(60)
        status = container_status(await machine.status())
        assert (status["restartCount"], "running" in status["state"], patient.asked) == (0, True, asked)
        patient.well = True
        machine.runtime.stand_still(running.id, "")
        await machine.ready(seconds=3)
        assert "reason" not in condition(await machine.status(), "Ready")

    play(story)
