"""Pods are placed in their classes and kept there, and their status shows the kernel's state."""

from __future__ import annotations

from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.decide.qosclasses.blockio import NO_CLASS, BlockioParameters
from tests.agent.pods.machine import Machine, condition, container_status, play
from tests.agent.qosclasses.imaginary import FAST, PERIOD, SLOW, Classes, Containerd, classed

KEY = "blockio.resources.alpha.kubernetes.io"


def asking(classes: dict[str, str], **more: Any) -> dict[str, Any]:
    """Return a container with these classes."""
    return {"container": {"resources": {"classes": classes, **more}}}


async def shown(machine: Machine, name: str = "web", container: str = "main") -> JsonObject | None:
    return (container_status(await machine.status(name), container).get("resources") or {}).get("classes")


def kernel_of(machine: Machine, made: Classes, id: str) -> BlockioParameters:
    assert isinstance(machine.runtime, Containerd)
    return made.kernel.groups.get(machine.runtime.group(id), NO_CLASS)


async def resize(machine: Machine, resources: JsonObject, name: str = "web") -> None:
    patch = {"spec": {"containers": [{"name": "main", "resources": resources}]}}
    await machine.pods.patch(name, patch, "default", type="strategic", subresource="resize")


async def pending(machine: Machine, reason: str) -> str:
    """Wait until a resize is pending; return its message."""

    async def check() -> bool:
        return condition(await machine.status(), "PodResizePending").get("reason") == reason

    await machine.until(check, 20)
    return condition(await machine.status(), "PodResizePending")["message"]


async def events(machine: Machine, reason: str, name: str = "web") -> list[str]:
    return [message for found, message in await machine.events(name) if found == reason]


def test_a_container_starts_in_its_class_and_status_says_so() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine)
        await machine.create(**asking({"blockio": "slow"}))
        await machine.ready()
        main = await machine.id()
        assert kernel_of(machine, made, main) == SLOW
        assert await shown(machine) == {"blockio": "slow"}
        assert made.kernel.writes == 0, "the runtime applied it before the process ran"

    play(story, start=False)


def test_classes_are_asked_for_by_annotation_too() -> None:
    async def story(machine: Machine) -> None:
        await classed(machine)
        annotations = {f"{KEY}/default": "slow", f"{KEY}/container.main": "fast"}
        containers = [{"name": "main", "image": "example.com/app:1"}, {"name": "beside", "image": "example.com/app:1"}]
        await machine.create(metadata={"annotations": annotations}, containers=containers)
        await machine.ready()
        assert await shown(machine) == {"blockio": "fast"}
        assert await shown(machine, container="beside") == {"blockio": "slow"}

    play(story, start=False)


def test_a_class_that_is_not_offered_refuses_the_pod_within_a_second() -> None:
    async def story(machine: Machine) -> None:
        await classed(machine)
        await machine.create(**asking({"blockio": "medium"}))
        status = await machine.phase("Failed", seconds=1)
        message = "class blockio/medium is not offered on n1; it offers fast, slow"
        assert (status["reason"], status["message"]) == ("ClassUnavailable", f"Pod was rejected: {message}")
        assert await events(machine, "ClassUnavailable") == [message]
        assert machine.calls("run_sandbox") == 0

    play(story, start=False)


def test_a_class_has_so_many_places_and_a_pod_that_ended_gives_its_back() -> None:
    async def story(machine: Machine) -> None:
        await classed(machine, classes={"slow": 1, "fast": None})
        await machine.create("one", **asking({"blockio": "slow"}))
        await machine.ready("one")
        await machine.restart()  # the usage follows from the pods on the node
        await machine.create("two", **asking({"blockio": "slow"}))
        status = await machine.phase("Failed", "two", seconds=1)
        assert status["reason"] == "ClassExhausted"
        assert status["message"].endswith("class blockio/slow on n1 is full: asked 1, used 1, capacity 1")
        await machine.pods.delete("one", "default")
        await machine.gone("one")
        await machine.create("three", **asking({"blockio": "slow"}))
        await machine.ready("three")

    play(story, start=False)


def test_a_lenient_node_takes_pods_without_what_it_does_not_offer() -> None:
    async def story(machine: Machine) -> None:
        await classed(machine, unavailable="ignore")
        await machine.create(**asking({"rdt": "gold", "blockio": "slow"}))
        await machine.ready()
        assert await shown(machine) == {"rdt": "", "blockio": "slow"}

    play(story, start=False)


def test_another_class_in_place_without_a_restart() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine)
        await machine.create(**asking({"blockio": "slow"}))
        await machine.ready()
        main = await machine.id()
        await resize(machine, {"classes": {"blockio": "fast"}})
        await machine.wait(1)
        assert kernel_of(machine, made, main) == FAST
        assert await shown(machine) == {"blockio": "fast"}
        assert await machine.id() == main
        assert not condition(await machine.status(), "PodResizeInProgress")
        assert not await events(machine, "ClassNotEffective")
        await resize(machine, {"classes": {"blockio": None}})
        await machine.wait(1)
        assert kernel_of(machine, made, main) == NO_CLASS
        assert await shown(machine) is None

    play(story, start=False)


def test_a_change_of_limits_by_the_runtime_does_not_bring_the_old_class_back() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine)
        amounts = {"requests": {"cpu": "100m"}}
        await machine.create(**asking({"blockio": "slow"}, **amounts))
        await machine.ready()
        main = await machine.id()
        await resize(machine, {"classes": {"blockio": "fast"}})
        await machine.wait(1)
        await resize(machine, {"requests": {"cpu": "200m"}})
        await machine.wait(1)
        assert machine.calls("update_container") == 1
        assert kernel_of(machine, made, main) == FAST
        await machine.driver.update_container(main, machine.runtime.resources_of(main))  # any update of limits
        assert kernel_of(machine, made, main) == FAST

    play(story, start=False)


def test_a_change_that_cannot_be_had_touches_nothing() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine, classes={"slow": 1, "fast": None})
        await machine.create("other", **asking({"blockio": "slow"}))
        await machine.ready("other")
        await machine.create(**asking({"blockio": "fast"}, requests={"cpu": "100m"}))
        await machine.ready()
        main = await machine.id()
        await resize(machine, {"classes": {"blockio": "medium"}, "requests": {"cpu": "200m"}})
        assert await pending(machine, "Infeasible") == "class blockio/medium is not offered on n1; it offers fast, slow"
        await resize(machine, {"classes": {"blockio": "slow"}, "requests": {"cpu": "200m"}})
        assert await pending(machine, "Deferred") == "class blockio/slow on n1 is full: asked 1, used 1, capacity 1"
        assert (kernel_of(machine, made, main), machine.calls("update_container")) == (FAST, 0)
        await machine.pods.delete("other", "default")
        await machine.gone("other")

        async def changed() -> bool:
            return kernel_of(machine, made, main) == SLOW

        await machine.until(changed, 90)
        assert machine.calls("update_container") == 1

    play(story, start=False)


def test_a_class_that_another_program_changed_is_reported_and_repaired() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine)
        await machine.create(**asking({"blockio": "slow"}))
        await machine.ready()
        main = await machine.id()
        assert isinstance(machine.runtime, Containerd)
        made.kernel.groups[machine.runtime.group(main)] = BlockioParameters(weight=500)
        await machine.wait(PERIOD + 1)
        assert kernel_of(machine, made, main) == SLOW
        assert await events(machine, "ClassNotEffective") == ["Container main is not in class blockio/slow"]
        assert list(made.events.metrics()) == [
            ("tarmac_node_class_ineffective_total", "counter", {"type": "blockio", "class": "slow"}, 1)
        ]

    play(story, start=False)


def test_a_container_left_between_creation_and_start_is_started_in_its_class() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine)
        await machine.create(**asking({"blockio": "slow"}))
        machine.runtime.trouble("start_container", None, delay=1000)
        await machine.wait(1)
        assert machine.calls("create_container") == 1
        machine.runtime.amended.clear()  # as if the agent was killed before it wrote the specification
        await machine.kill()
        await machine.start()
        await machine.ready()
        assert machine.calls("create_container") == 1
        assert kernel_of(machine, made, await machine.id()) == SLOW

    play(story, start=False)


def test_a_class_that_is_no_longer_requested_leaves_the_specification() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine)
        await machine.create(**asking({"blockio": "slow"}))
        machine.runtime.trouble("start_container", None, delay=1000)
        await machine.wait(1)
        await machine.kill()
        await resize(machine, {"classes": {"blockio": None}})
        await machine.start()
        await machine.ready()
        await machine.wait(1)
        assert kernel_of(machine, made, await machine.id()) == NO_CLASS

    play(story, start=False)


def test_sandboxes_with_their_own_kernel_are_put_into_the_class_as_a_whole() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine)
        containers = [
            {"name": "main", "image": "example.com/app:1", "resources": {"classes": {"blockio": "slow"}}},
            {"name": "beside", "image": "example.com/app:1"},
        ]
        await machine.create(runtimeClassName="gvisor", containers=containers)
        await machine.ready()
        uid = (await machine.get())["metadata"]["uid"]
        [sandbox] = await machine.runtime.sandboxes(uid)
        assert made.kernel.groups == {f"/kubepods/pod{uid}/{sandbox.id}": SLOW}
        assert await shown(machine) == {"blockio": "slow"}
        assert await shown(machine, container="beside") == {"blockio": "slow"}
        assert machine.calls("amend_spec") == 0

    play(story, start=False)


def test_another_runtime_than_containerd_is_told_in_the_words_of_version_2() -> None:
    async def story(machine: Machine) -> None:
        runtime = Containerd(machine.world.clock)
        runtime.name = "cri-o"
        made = await classed(machine, runtime=runtime, unified=True)
        await machine.create(**asking({"blockio": "slow"}))
        await machine.ready()
        main = await machine.id()
        assert runtime.resources_of(main).unified == {"io.weight": "102"}
        assert machine.calls("amend_spec") == 0
        assert kernel_of(machine, made, main) == SLOW, "the first pass corrects containers that started without a class"
        assert await shown(machine) == {"blockio": "slow"}

    play(story, start=False)


def test_the_feature_off_and_on_again() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine)
        await machine.create("stays", **asking({"blockio": "slow"}))
        await machine.create("restarts", **asking({"blockio": "slow"}))
        await machine.ready("stays")
        await machine.ready("restarts")
        ids = {each.labels["io.kubernetes.pod.name"]: each.id for each in await machine.runtime.containers()}
        await machine.kill()
        made.on = False
        await machine.start()
        machine.runtime.end_container(ids["restarts"], 1)
        await machine.wait(30)
        assert await shown(machine, "stays") is None, "the status shows no class"
        assert kernel_of(machine, made, ids["stays"]) == SLOW, "running containers keep the kernel's limits"
        new = max(
            (
                each
                for each in await machine.runtime.containers()
                if each.labels["io.kubernetes.pod.name"] == "restarts"
            ),
            key=lambda each: each.attempt,
        ).id
        assert new != ids["restarts"]
        assert kernel_of(machine, made, new) == NO_CLASS, "a restarted container has none"
        await machine.kill()
        made.on = True
        await machine.start()
        await machine.wait(PERIOD + 1)
        assert kernel_of(machine, made, new) == SLOW, "restored within one period"
        assert await shown(machine, "stays") == await shown(machine, "restarts") == {"blockio": "slow"}

    play(story, start=False)


def test_annotations_for_the_runtime_itself_do_not_pass() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine)
        past = {
            "blockio.resources.beta.kubernetes.io/pod": "fast",
            "blockio.resources.beta.kubernetes.io/container.main": "fast",
            "io.kubernetes.cri.blockio-class": "fast",
            "rdt.resources.beta.kubernetes.io/pod": "gold",
        }
        await machine.create(metadata={"annotations": {**past, "example.com/own": "stays"}})
        await machine.ready()
        [sandbox] = await machine.runtime.sandboxes()
        assert not past.keys() & sandbox.annotations.keys()
        assert sandbox.annotations["example.com/own"] == "stays"
        told = await events(machine, "ClassAnnotationIgnored")
        assert len(told) == 4
        assert any(f"ask by {KEY}/container.main" in each for each in told)
        await machine.kill()
        made.on = False
        await machine.start()
        await machine.create("passed", metadata={"annotations": past})
        await machine.ready("passed")
        found = next(each for each in await machine.runtime.sandboxes() if each.pod.name == "passed")
        assert past.items() <= found.annotations.items()

    play(story, start=False)


def test_a_new_definition_reaches_who_runs_and_a_bad_file_changes_nothing() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine)
        await machine.create(**asking({"blockio": "slow"}))
        await machine.ready()
        main = await machine.id()
        assert made.file is not None
        made.file.write_text("Classes: {slow: [{Weight: 33}], fast: [{Weight: 900}]}\n")
        await machine.wait(PERIOD + 1)
        assert kernel_of(machine, made, main) == BlockioParameters(weight=33)
        assert not await events(machine, "ClassNotEffective")
        made.file.write_text("Classes: {slow: [{Weight: 3}]}\n")
        await machine.wait(3 * PERIOD)
        assert [reason for reason, _ in made.node_events] == ["ClassFileInvalid"]
        assert "Classes.slow[0].Weight: 3 is not between 10 and 1000" in made.node_events[0][1]
        assert kernel_of(machine, made, main) == BlockioParameters(weight=33)
        assert await shown(machine) == {"blockio": "slow"}

    play(story, start=False)


def test_a_class_that_vanishes_leaves_who_is_in_it() -> None:
    async def story(machine: Machine) -> None:
        made = await classed(machine)
        await machine.create(**asking({"blockio": "slow"}))
        await machine.ready()
        main = await machine.id()
        assert made.file is not None
        made.file.write_text("Classes: {fast: [{Weight: 900}]}\n")
        await machine.wait(PERIOD + 1)
        assert kernel_of(machine, made, main) == SLOW
        assert await shown(machine) == {"blockio": "slow"}
        assert len(await events(machine, "ClassVanished")) == 1
        await machine.create("late", **asking({"blockio": "slow"}))
        assert (await machine.phase("Failed", "late", 1))["reason"] == "ClassUnavailable"
        machine.runtime.end_container(main, 1)
        waiting = await machine.waits("CreateContainerError")
        assert waiting["message"] == "class blockio/slow is not offered on n1; it offers fast"

    play(story, start=False)
