"""A pod's worker requests resources of plugins, such as devices, before all other steps."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Set
from dataclasses import dataclass, field, replace

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.model.allotment import AllocationRefused, PodAllotment, Refusal
from tarmac.agent.model.devices import ContainerDevices
from tarmac.agent.model.pod import AgentPod
from tarmac.api.schema import JsonObject
from tarmac.runtimes.fake import FakeProgram
from tarmac.runtimes.interface import Device, Mount
from tests.agent.pods.machine import Machine, container_status, play

GIVEN = ContainerDevices(
    (("GPU", "g0"), ("MINE", "theirs")),
    (Mount("/gpu", "/dev/gpu"),),
    (Device("/dev/gpu", "/dev/gpu", "rw"),),
    ("example.com/gpu=0",),
    {"example.com/gpu": "g0"},
)
SHOWN: JsonObject = {"allocatedResourcesStatus": [{"name": "example.com/gpu", "resources": [{"resourceID": "g0"}]}]}


@dataclass
class Gpus:
    """Allocates to all pods that are not refused; `slow` ones get their response when `answer` is set."""

    refused: Mapping[str, Refusal] = field(default_factory=dict[str, Refusal])
    slow: Set[str] = frozenset()
    answer: asyncio.Event = field(default_factory=asyncio.Event)
    missing: str = ""
    expected: bool = False
    held: dict[str, str] = field(default_factory=dict[str, str])
    asked: list[str] = field(default_factory=list[str])

    async def prepare(self, pod: AgentPod) -> Refusal | None:
        self.asked.append(pod.name)
        self.held[pod.uid] = pod.name
        if pod.name in self.slow:
            await self.answer.wait()
        return self.refused.get(pod.name)

    async def before_start(self, pod: AgentPod, container: str) -> bool:
        if self.missing:
            raise AllocationRefused(self.missing)
        return False

    def extend(self, pod: AgentPod, allotment: PodAllotment) -> PodAllotment:
        containers = {name: replace(each, devices=GIVEN) for name, each in allotment.containers.items()}
        return replace(allotment, containers=containers)

    def release(self, uid: str) -> None:
        self.held.pop(uid, None)

    def awaited(self) -> Set[str]:
        return {"example.com/gpu"} if self.expected else set()

    def holders(self) -> Set[str]:
        return set(self.held)

    def shown(self, uid: str) -> Mapping[str, JsonObject]:
        return {"main": SHOWN} if uid in self.held else {}


async def with_gpus(machine: Machine, gpus: Gpus) -> None:
    await machine.kill()
    machine.allocator = Allocator(AllocationSettings(), asked=[gpus])
    await machine.start()


def test_a_container_gets_what_was_given_and_its_status_shows_it() -> None:
    async def story(machine: Machine) -> None:
        gpus = Gpus()
        await with_gpus(machine, gpus)
        await machine.create(container={"env": [{"name": "MINE", "value": "mine"}], "args": ["$(GPU)"]})
        status = await machine.phase("Running")
        config = machine.runtime.config_of(await machine.id())
        assert config.envs[:2] == (("GPU", "g0"), ("MINE", "mine"))
        assert config.args == ("g0",)
        assert config.mounts[0] == GIVEN.mounts[0]
        assert (config.devices, config.cdi_devices) == (GIVEN.devices, GIVEN.cdi)
        assert config.annotations["example.com/gpu"] == "g0"
        assert "io.kubernetes.container.hash" in config.annotations
        assert container_status(status)["allocatedResourcesStatus"] == SHOWN["allocatedResourcesStatus"]
        assert gpus.asked == ["web"]

    play(story)


def test_a_pod_that_is_refused_fails_with_the_reason_and_nothing_was_made() -> None:
    async def story(machine: Machine) -> None:
        gpus = Gpus(refused={"web": ("UnexpectedAdmissionError", "Allocate failed due to fire, which is unexpected")})
        await with_gpus(machine, gpus)
        made = len(machine.runtime.calls)
        await machine.create()
        status = await machine.phase("Failed", seconds=1)
        assert status["reason"] == "UnexpectedAdmissionError"
        assert status["message"] == "Pod was rejected: Allocate failed due to fire, which is unexpected"
        assert "run_sandbox" not in [name for name, _ in machine.runtime.calls[made:]]
        assert gpus.held == {}
        reason, message = (await machine.events())[-1]
        assert (reason, message) == ("UnexpectedAdmissionError", "Allocate failed due to fire, which is unexpected")
        await machine.pods.delete("web", "default")
        await machine.gone()

    play(story)


def test_a_slow_plugin_delays_one_pod_only() -> None:
    async def story(machine: Machine) -> None:
        gpus = Gpus(slow={"slow"})
        await with_gpus(machine, gpus)
        await machine.create("slow")
        await machine.create("quick")
        await machine.phase("Running", "quick", seconds=2)
        assert (await machine.status("slow"))["phase"] == "Pending"
        gpus.answer.set()
        await machine.phase("Running", "slow")

    play(story)


def test_a_pod_that_is_deleted_while_it_waits_has_nothing_any_more() -> None:
    async def story(machine: Machine) -> None:
        gpus = Gpus(slow={"web"})
        await with_gpus(machine, gpus)
        await machine.create()
        await machine.wait(1)
        assert len(gpus.held) == 1
        await machine.pods.delete("web", "default")
        await machine.gone(seconds=5)
        await machine.wait(2)
        assert gpus.held == {}

    play(story)


def test_a_container_whose_devices_are_not_ready_waits_and_is_tried_again() -> None:
    async def story(machine: Machine) -> None:
        gpus = Gpus(missing="the device is being reset")
        await with_gpus(machine, gpus)
        await machine.create()
        waiting = await machine.waits("CreateContainerConfigError")
        assert waiting["message"] == "the device is being reset"
        gpus.missing = ""
        await machine.phase("Running")

    play(story)


def test_a_restarted_container_and_a_new_agent_ask_for_nothing_new() -> None:
    async def story(machine: Machine) -> None:
        gpus = Gpus()
        await with_gpus(machine, gpus)
        machine.runtime.programs["main"] = FakeProgram(runs_for=5, exit_code=1)
        await machine.create()
        await machine.phase("Running")
        await machine.restart()
        await machine.wait(60)
        assert container_status(await machine.status())["restartCount"] >= 1
        assert gpus.asked == ["web"]
        assert machine.runtime.config_of(await machine.id()).devices == GIVEN.devices

    play(story)


def test_resources_of_a_pod_deleted_while_the_agent_was_down_are_released() -> None:
    async def story(machine: Machine) -> None:
        gpus = Gpus(slow={"web"})
        await with_gpus(machine, gpus)
        await machine.create()
        await machine.wait(1)
        assert len(gpus.held) == 1
        await machine.kill()
        await machine.pods.delete("web", "default", grace=0)
        await machine.gone()
        await machine.start()
        await machine.wait(10)
        assert gpus.held == {}

    play(story)


def test_room_is_not_judged_by_what_nobody_can_count_yet() -> None:
    """A restarted agent reports no device until the plugin has registered again."""

    async def story(machine: Machine) -> None:
        gpus = Gpus(expected=True)
        await with_gpus(machine, gpus)
        machine.node["status"]["allocatable"]["example.com/gpu"] = "0"
        amounts = {"limits": {"example.com/gpu": "1"}}
        await machine.create(container={"resources": amounts})
        await machine.phase("Running")
        gpus.expected = False
        await machine.create("late", container={"resources": amounts})
        status = await machine.phase("Failed", "late", seconds=1)
        assert status["reason"] == "OutOfexample.com/gpu"

    play(story)


def test_a_pod_that_a_killed_agent_left_takes_no_room_once_the_server_has_it_no_more() -> None:
    async def story(machine: Machine) -> None:
        machine.node["status"]["allocatable"]["cpu"] = "1"
        amounts = {"limits": {"cpu": "1"}}
        await machine.create("old", container={"resources": amounts})
        await machine.phase("Running", "old")
        await machine.kill()
        await machine.pods.delete("old", "default", grace=0)
        await machine.gone("old")
        await machine.create("new", container={"resources": amounts})
        await machine.start()
        await machine.phase("Running", "new")

    play(story)
