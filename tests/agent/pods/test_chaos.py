"""Random faults together: agents killed, runtimes and servers away, pods created, crashing and deleted.

At the end, with all parts back, the node has exactly the pods of the API; each container has restarted once for each
crash, and nothing is left of any other pod. A failing seed is in the test's name.
"""

from __future__ import annotations

import random

import pytest

from tarmac.api.schema import JsonObject
from tarmac.api.status import Conflict, NotFound
from tarmac.runtimes.fake import FakeProgram
from tests.agent.pods.machine import Machine, container, container_status, play

ROUNDS = 50
SLOW_CALLS = ("run_sandbox", "create_container", "start_container", "sandbox", "container", "stop_container")


class Chaos:
    """Random operations, and the counts to check at the end."""

    def __init__(self, machine: Machine, seed: int) -> None:
        self.machine = machine
        self.chance = random.Random(seed)
        self.made = 0
        self.crashes: dict[tuple[str, str], int] = {}  # by pod and container
        self.unplugged = False

    async def round(self) -> None:
        machine, chance = self.machine, self.chance
        deeds = [self.create, self.delete, self.crash, self.kill_agent, self.unplug, self.slow]
        deeds += [self.kill_in_the_middle] * 3
        await chance.choice(deeds)()
        await machine.wait(chance.choice([0.001, 0.01, 0.05, 0.3, 1, 4]))

    async def create(self) -> None:
        self.made += 1
        init = [container("first")] if self.chance.random() < 0.5 else []
        if self.chance.random() < 0.3:
            init.append({**container("sidecar"), "restartPolicy": "Always"})
        await self.machine.create(f"p{self.made}", initContainers=init)

    async def delete(self) -> None:
        pods = (await self.machine.pods.list("default")).items
        if pods:
            name = self.chance.choice(pods)["metadata"]["name"]
            try:
                await self.machine.pods.delete(name, "default", grace=self.chance.choice([None, None, 0, 3]))
            except (NotFound, Conflict):
                return

    async def crash(self) -> None:
        if self.unplugged:
            return
        lasting = [each for each in await self.running() if each[1] != "first"]
        if lasting:
            name, which, identity = self.chance.choice(lasting)
            self.machine.runtime.end_container(identity, 1)
            self.crashes[name, which] = self.crashes.get((name, which), 0) + 1

    async def running(self) -> list[tuple[str, str, str]]:
        sandboxes = {each.id: each.pod.name for each in await self.machine.runtime.sandboxes()}
        containers = await self.machine.runtime.containers()
        return [(sandboxes[each.sandbox_id], each.name, each.id) for each in containers if each.state == "running"]

    async def kill_agent(self) -> None:
        await self.machine.restart()

    async def kill_in_the_middle(self) -> None:
        """Kill the agent while it starts or ends a pod."""
        await self.slow()
        await self.chance.choice([self.create, self.create, self.delete, self.crash])()
        await self.machine.wait(self.chance.choice([0.02, 0.1, 0.5, 1.1]))
        await self.machine.restart()

    async def slow(self) -> None:
        self.machine.runtime.trouble(self.chance.choice(SLOW_CALLS), None, times=1, delay=self.chance.uniform(0.1, 2))

    async def unplug(self) -> None:
        machine = self.machine
        match self.chance.randrange(3):
            case 0:
                machine.runtime.unplug()
                self.unplugged = True
                await machine.wait(self.chance.choice([0.5, 5]))
                machine.runtime.plug_in()
                self.unplugged = False
            case 1:
                machine.unplug_server()
                await machine.wait(self.chance.choice([0.5, 10]))
                machine.plug_server_in()
            case _:
                await machine.wait(2)


@pytest.mark.parametrize("seed", range(12))
def test_nothing_is_lost_or_left_or_restarted_without_need(seed: int) -> None:
    async def story(machine: Machine) -> None:
        machine.runtime.programs["first"] = FakeProgram(runs_for=1)
        chaos = Chaos(machine, seed)
        for _ in range(ROUNDS):
            await chaos.round()
        await machine.wait(400)
        await check(machine, chaos)

    play(story)


async def check(machine: Machine, chaos: Chaos) -> None:
    pods: dict[str, JsonObject] = {each["metadata"]["uid"]: each for each in (await machine.pods.list("default")).items}
    assert {each["metadata"]["uid"] for each in machine.manager.pods()} == set(pods)
    sandboxes = await machine.runtime.sandboxes()
    assert {each.pod.uid for each in sandboxes} == set(pods)
    assert len([each for each in sandboxes if each.ready]) == len(pods), "one ready sandbox for each pod"
    assert set(machine.cgroups.made) == set(pods)
    assert all(machine.cgroups.made.values()), "every cgroup has its quota"
    assert machine.volumes.mounted == set(pods)
    assert {each.name for each in (machine.root / "pods").iterdir()} == set(pods)
    assert len(list((machine.root / "logs").iterdir())) == len(pods)
    for each in pods.values():
        name, status = each["metadata"]["name"], each["status"]
        assert "deletionTimestamp" not in each["metadata"], f"{name} should be gone"
        assert status["phase"] == "Running", name
        for which in ("main", "sidecar"):
            found = container_status(status, which)
            if found:
                assert found["restartCount"] == chaos.crashes.get((name, which), 0), f"{name}/{which}"
                assert found["ready"], f"{name}/{which}"
