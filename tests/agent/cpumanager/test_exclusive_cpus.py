"""No process ever runs on the exclusive CPUs of a running container, in any order of events."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from typing import Any

import pytest

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.cgroups.podcgroups import KubePods
from tarmac.agent.cpumanager.manager import CPUManager
from tarmac.agent.cpumanager.placement import CpuPlacer
from tarmac.agent.cpumanager.runtime import PinningRuntime
from tarmac.api.schema import JsonObject
from tests.agent.cpumanager.kernel import ALONE, Kernel, KernelRuntime
from tests.agent.cpumanager.scene import CPUS, manager
from tests.agent.pods.machine import IMAGE, Machine, play
from tests.soak import SOAK

SEEDS = range(1, 201) if SOAK else range(1, 9)
GUARANTEED = {"cpu": "1", "memory": "16Mi"}


class Node:
    """A machine whose agent has the static policy."""

    def __init__(self, machine: Machine) -> None:
        self.machine = machine
        self.slowness: Callable[[], float] = lambda: 0.3
        self.kernel = Kernel(CPUS)
        self.runtime = KernelRuntime(machine.runtime, self.kernel, machine.world.clock, lambda: self.slowness())  # noqa: PLW0108 - it changes
        self.cpus: CPUManager
        self._placing: asyncio.Task[None] | None = None

    async def start(self) -> None:
        machine, clock = self.machine, self.machine.world.clock
        self.cpus = manager(machine.root)
        groups = KubePods(self.kernel, "", clock)
        groups.prepare()
        placement = CpuPlacer(self.cpus, self.kernel, groups, self.runtime, clock, 10)
        machine.groups = groups
        machine.notes = self.cpus.notes
        machine.driver = PinningRuntime(self.runtime, self.cpus, placement)
        machine.allocator = Allocator(AllocationSettings(), [self.cpus])
        machine.resize_checks[:] = [self.cpus.postponed]
        await machine.start()
        self._placing = asyncio.create_task(
            placement.run(lambda: {each["metadata"]["uid"] for each in machine.manager.pods()})
        )

    async def kill(self) -> None:
        assert self._placing is not None
        self._placing.cancel()
        await asyncio.wait([self._placing])
        await self.machine.kill()

    async def create(self, name: str, *containers: JsonObject) -> None:
        await self.machine.create(name, containers=list(containers), terminationGracePeriodSeconds=1)

    def on(self, name: str) -> set[str]:
        """Return the cpusets of the processes of these containers."""
        found = (path for path, each in self.kernel.processes.items() if each == name)
        return {str(self.kernel.groups[path]) for path in found}


def alone(cpu: str = "1") -> JsonObject:
    resources = {"requests": {**GUARANTEED, "cpu": cpu}, "limits": {**GUARANTEED, "cpu": cpu}}
    return {"name": ALONE, "image": IMAGE, "resources": resources}


def shared(name: str = "shared") -> JsonObject:
    return {"name": name, "image": IMAGE}


def told(story: Any) -> None:
    """Play a story on a node with the static policy."""

    async def whole(machine: Machine) -> None:
        node = Node(machine)
        await node.start()
        try:
            await story(node)
            assert not node.kernel.violations
        finally:
            await node.kill()
            await machine.start()  # the machine stops a running agent at its end

    play(whole, start=False)


def test_everybody_leaves_before_it_begins_and_comes_back_when_it_has_ended() -> None:
    async def story(node: Node) -> None:
        await node.create("before", shared())
        await node.machine.phase("Running", "before")
        assert node.on("shared") == {"0-3"}
        await node.create("own", alone("2"))
        await node.machine.phase("Running", "own")
        assert (node.on(ALONE), node.on("shared")) == ({"1-2"}, {"0,3"})
        assert (await node.machine.get("own"))["metadata"]["annotations"]["node.tarmac/cpus"] == '{"alone":"1-2"}'
        await node.create("after", shared("late"))
        await node.machine.phase("Running", "after")
        assert node.on("late") == {"0,3"}
        await node.machine.pods.delete("own", "default")
        await node.machine.gone("own")
        await node.machine.wait(1)
        assert (node.on("shared"), node.on("late")) == ({"0-3"}, {"0-3"})

    told(story)


def test_one_that_is_about_to_begin_when_its_processors_are_taken() -> None:
    async def story(node: Node) -> None:
        node.slowness = lambda: 3.0
        await node.create("slow", shared())

        async def beginning() -> bool:
            return node.machine.calls("create_container") == 1

        await node.machine.until(beginning)
        await node.machine.wait(0.2)
        node.slowness = lambda: 0.0
        await node.create("own", alone("3"))
        await node.machine.phase("Running", "own")
        await node.machine.phase("Running", "slow")
        assert (node.on(ALONE), node.on("shared")) == ({"1-3"}, {"0"})

    told(story)


def test_a_container_that_begins_anew_has_the_same_processors_also_with_another_agent() -> None:
    async def story(node: Node) -> None:
        await node.create("own", alone())
        await node.machine.phase("Running", "own")
        node.machine.runtime.end_container(await node.machine.id(ALONE), 1)
        await node.machine.wait(30)
        assert node.on(ALONE) == {"1"}
        await node.kill()
        await node.start()
        await node.create("next", alone())
        await node.machine.phase("Running", "next")
        assert node.on(ALONE) == {"1", "2"}

    told(story)


def test_containers_that_share_and_containers_that_do_not_in_one_pod() -> None:
    async def story(node: Node) -> None:
        half = alone("500m") | {"name": "half"}
        await node.create("mixed", alone(), half)
        await node.machine.phase("Running", "mixed")
        assert (node.on(ALONE), node.on("half")) == ({"1"}, {"0,2-3"})

    told(story)


def test_a_pod_that_does_not_fit_is_refused_within_a_second() -> None:
    async def story(node: Node) -> None:
        await node.create("own", alone("3"))
        await node.machine.phase("Running", "own")
        await node.create("more", alone("1"))
        status = await node.machine.phase("Failed", "more", seconds=1)
        assert status["reason"] == "UnexpectedAdmissionError"
        assert "requested=1, available=0" in status["message"]

    told(story)


def test_a_resize_of_cpu_is_infeasible() -> None:
    async def story(node: Node) -> None:
        await node.create("own", alone("1"))
        await node.machine.phase("Running", "own")
        patch = {"spec": {"containers": [alone("2")]}}
        await node.machine.pods.patch("own", patch, "default", type="strategic", subresource="resize")

        async def infeasible() -> bool:
            conditions = (await node.machine.status("own")).get("conditions") or ()
            return any(each.get("reason") == "Infeasible" for each in conditions)

        await node.machine.until(infeasible)
        assert node.on(ALONE) == {"1"}

    told(story)


@pytest.mark.soak(minutes=0.1)
@pytest.mark.parametrize("seed", SEEDS)
def test_pods_come_and_go_and_the_agent_is_killed_at_any_time(seed: int) -> None:
    dice = random.Random(seed)

    async def story(node: Node) -> None:
        node.slowness = lambda: dice.choice((0.0, 0.1, 0.5, 2.0))
        names: list[str] = []
        for number in range(25):
            what = dice.randint(0, 9)
            if what < 5:
                names.append(f"p{number}")
                own = dice.randint(0, 1)
                await node.create(
                    names[-1], *([alone(str(dice.randint(1, 2)))] if own else []), *([] if own else [shared()])
                )
            elif what < 7 and names:
                await node.machine.pods.delete(names.pop(dice.randint(0, len(names) - 1)), "default")
            else:
                await node.kill()
                await node.start()
            await node.machine.wait(dice.randint(0, 20) / 10)
        for name in names:
            await node.machine.pods.delete(name, "default")
        for name in names:
            await node.machine.gone(name)
        await node.machine.wait(15)
        assert str(node.cpus.shared) == "0-3"

    told(story)
