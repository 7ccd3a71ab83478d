"""The allocator gives a version of a pod the same allotment; limited resources are admitted, allotted and released."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from tarmac.agent.allocation.allocationsettings import AllocationSettings
from tarmac.agent.allocation.allocator import Allocator
from tarmac.agent.model.allotment import PodAllotment, Refusal
from tarmac.agent.model.pod import AgentPod
from tarmac.runtimes.fake import FakeProgram
from tests.agent.pods.machine import Machine, play


def a_pod(uid: str = "u", cpu: str = "1") -> AgentPod:
    amounts = {"cpu": cpu, "memory": "64Mi"}
    containers = [{"name": "c", "resources": {"requests": amounts, "limits": amounts}}]
    ephemeral = [{"name": "debug"}]
    return AgentPod(
        {
            "metadata": {"name": uid, "namespace": "n", "uid": uid},
            "spec": {"containers": containers, "ephemeralContainers": ephemeral},
        }
    )


@dataclass
class Processors:
    """Exclusive processors: one for each pod, `free` in total."""

    free: int = 1
    given: dict[str, str] = field(default_factory=dict[str, str])

    def admit(self, pod: AgentPod) -> Refusal | None:
        if pod.uid not in self.given and len(self.given) == self.free:
            return "UnexpectedAdmissionError", "no processor is left"
        self.given.setdefault(pod.uid, str(len(self.given) + 2))
        return None

    def extend(self, pod: AgentPod, allotment: PodAllotment) -> PodAllotment:
        cpus = self.given.get(pod.uid, "")
        containers = {name: replace(each, cpus=cpus) for name, each in allotment.containers.items()}
        return replace(allotment, containers=containers, cpus=cpus)

    def release(self, uid: str) -> None:
        self.given.pop(uid, None)


class Nothing(Processors):
    """Refuses every pod."""

    def admit(self, pod: AgentPod) -> Refusal | None:
        return "ClassUnavailable", "no class is offered"


def test_one_version_of_a_pod_has_one_answer() -> None:
    allocator = Allocator(AllocationSettings())
    made = a_pod()
    first = allocator.allot(made)
    assert allocator.allot(made) is first
    grown = allocator.allot(a_pod(cpu="2"))
    assert (first.limits.quota, grown.limits.quota) == (100_000, 200_000)
    assert grown.containers["c"].quota == 200_000


def test_containers_of_every_sort_have_an_answer() -> None:
    allotment = Allocator(AllocationSettings()).allot(a_pod())
    assert allotment.containers.keys() == {"c", "debug"}
    assert allotment.quality == "Guaranteed"


def test_limited_resources_are_admitted_allotted_and_released() -> None:
    processors = Processors()
    allocator = Allocator(AllocationSettings(), [processors])
    one, two = a_pod("one"), a_pod("two")
    assert allocator.admit(one) is None
    assert allocator.admit(one) is None
    assert allocator.allot(one).containers["c"].resources().cpuset_cpus == "2"
    assert allocator.admit(two) == ("UnexpectedAdmissionError", "no processor is left")
    allocator.release("one")
    assert allocator.admit(two) is None


def test_a_pod_that_one_resource_refuses_has_nothing_of_the_others() -> None:
    processors = Processors()
    allocator = Allocator(AllocationSettings(), [processors, Nothing()])
    assert allocator.admit(a_pod()) == ("ClassUnavailable", "no class is offered")
    assert processors.given == {}


def test_a_resource_plugs_in_without_the_pod_loop_knowing() -> None:
    """The runtime receives the allotment, a refused pod fails, and an ended pod has released its resources."""

    async def story(machine: Machine) -> None:
        processors = Processors()
        await machine.kill()
        machine.allocator = Allocator(AllocationSettings(), [processors])
        await machine.start()
        machine.runtime.programs["main"] = FakeProgram(runs_for=5)
        await machine.create(restartPolicy="Never")
        await machine.phase("Running")
        assert machine.runtime.resources_of(await machine.id()).cpuset_cpus == "2"
        await machine.create("late", restartPolicy="Never")
        status = await machine.phase("Failed", "late")
        assert status["reason"] == "UnexpectedAdmissionError"
        assert status["message"].endswith("no processor is left")
        await machine.phase("Succeeded")
        assert processors.given == {}
        await machine.create("later", restartPolicy="Never")
        await machine.phase("Running", "later")

    play(story)
