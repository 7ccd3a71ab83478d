"""Virtual machines on simulated nodes boot before they are ready, panic on request, and outlive their supervisor."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.decide.reasons import GUEST_PANICKED
from tarmac.sim.checker.replay import Checker
from tarmac.sim.checker.safety import safety
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.nodes.pod import SimulatedPod
from tests.sim.stage import Stage, play, pod
from tests.sim.test_simulated_nodes import conditions


async def place(stage: Stage, name: str = "vm", **annotations: str) -> None:
    made = pod(name, annotations={f"sim.tarmac/{key.replace('_', '-')}": value for key, value in annotations.items()})
    made["spec"]["runtimeClassName"] = "vm"
    await stage.pods.create(made)
    binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"name": "dfw-0"}}
    await stage.pods.create(binding, namespace="default", name=name, subresource="binding")


async def told(stage: Stage) -> tuple[str, str, bool]:
    """Return phase, readiness, and whether its container runs."""
    seen: Any = await stage.pod("vm")
    state = seen["status"].get("containerStatuses", [{"state": {}}])[0]["state"]
    return seen["status"]["phase"], conditions(seen).get("Ready", ""), "running" in state


def test_a_machine_runs_before_it_is_ready() -> None:
    async def story(stage: Stage) -> None:
        await place(stage)
        await stage.wait(4)
        assert await told(stage) == ("Running", "False", True)
        assert stage.really_running() == [("dfw-0", "vm")]
        await stage.wait(8)
        assert await told(stage) == ("Running", "True", True)

    play(story)


def test_the_boot_time_of_a_machine_is_configurable() -> None:
    async def story(stage: Stage) -> None:
        await place(stage, boot="90s")
        await stage.wait(80)
        assert await told(stage) == ("Running", "False", True)
        await stage.wait(15)
        assert await told(stage) == ("Running", "True", True)

    play(story)


def test_a_machine_that_is_told_to_panic_does_so_each_time_and_is_started_again() -> None:
    async def story(stage: Stage) -> None:
        await place(stage, panic_after="30s")
        await stage.wait(42)
        seen = await stage.state("vm")
        assert seen["lastState"]["terminated"]["reason"] == GUEST_PANICKED
        assert (seen["lastState"]["terminated"]["exitCode"], seen["ready"]) == (1, False), "it boots again at once"
        await stage.wait(10)
        assert await told(stage) == ("Running", "True", True)
        assert (await stage.state("vm"))["restartCount"] == 1

    play(story)


def test_nobody_starts_what_ends_while_there_is_no_agent_and_the_next_one_does() -> None:
    async def story(stage: Stage) -> None:
        await place(stage, panic_after="30s")
        await stage.wait(15)
        stage.fleet.end_agent("dfw-0")
        await stage.wait(200)
        assert stage.really_running() == []
        stage.fleet.start_agent("dfw-0")
        await stage.wait(15)
        seen = await stage.state("vm")
        assert (seen["restartCount"], "running" in seen["state"]) == (1, True)
        assert seen["lastState"]["terminated"]["reason"] == GUEST_PANICKED

    play(story)


@pytest.mark.parametrize("wrong", [False, True], ids=["an honest agent", "one that starts what it finds"])
def test_the_checker_finds_an_agent_that_starts_machines_again(wrong: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def adopt(self: SimulatedNodes, pod: SimulatedPod) -> None:
        pod.restarts += 1
        self._reports.queue.add(pod.uid)  # pyright: ignore[reportPrivateUsage]

    if wrong:
        monkeypatch.setattr(SimulatedNodes, "_adopt", adopt)

    async def story(stage: Stage) -> None:
        checker = Checker(safety())
        stage.world.store.observers.append(checker)
        await place(stage)
        await stage.wait(15)
        stage.fleet.end_agent("dfw-0")
        await stage.wait(5)
        stage.fleet.start_agent("dfw-0")
        await stage.wait(5)
        assert [each.rule for each in checker.violations] == (["machine-restarts"] if wrong else [])

    play(story)


def test_a_machine_boots_again_after_its_node_lost_power_and_not_after_it_was_left_alone() -> None:
    async def story(stage: Stage) -> None:
        await place(stage)
        await stage.wait(15)
        stage.fleet.cut("dfw-0")
        await stage.wait(5)
        stage.fleet.heal("dfw-0")
        await stage.wait(1)
        assert await told(stage) == ("Running", "True", True)
        assert (await stage.state("vm"))["restartCount"] == 0
        stage.fleet.end_agent("dfw-0")
        await stage.wait(60)
        assert stage.really_running() == [("dfw-0", "vm")]
        stage.fleet.start_agent("dfw-0")
        await stage.wait(5)
        assert await told(stage) == ("Running", "True", True)
        assert (await stage.state("vm"))["restartCount"] == 0
        stage.fleet.die("dfw-0")
        await stage.wait(5)
        stage.fleet.revive("dfw-0")
        await stage.wait(4)
        assert (await told(stage))[1] == "False"
        await stage.wait(8)
        assert await told(stage) == ("Running", "True", True)
        assert (await stage.state("vm"))["restartCount"] == 1

    play(story)
