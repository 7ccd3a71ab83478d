"""Changes of running pods: resources in place, and containers for debugging."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface import RuntimeRefused
from tests.agent.pods.machine import IMAGE, Machine, condition, container_status, play


def asking(cpu: str, **more: Any) -> JsonObject:
    return {"resources": {"requests": {"cpu": cpu}, "limits": {"cpu": cpu}}, **more}


async def resize(machine: Machine, cpu: str) -> None:
    patch = {"spec": {"containers": [{"name": "main", "resources": asking(cpu)["resources"]}]}}
    await machine.pods.patch("web", patch, "default", type="strategic", subresource="resize")


def test_more_resources_are_given_without_a_restart() -> None:
    async def story(machine: Machine) -> None:
        await machine.create(container=asking("1"))
        await machine.phase("Running")
        before = await machine.id()
        await resize(machine, "2")
        await machine.wait(1)
        status = await machine.status()
        main = container_status(status)
        assert main["allocatedResources"] == {"cpu": "2"}
        assert main["resources"] == {"requests": {"cpu": "2"}, "limits": {"cpu": "2"}}
        assert main["restartCount"] == 0
        assert await machine.id() == before
        assert machine.calls("update_container") == 1
        assert not condition(status, "PodResizePending")
        assert not condition(status, "PodResizeInProgress")
        assert status["observedGeneration"] == 2

    play(story)


def test_a_resize_that_no_agent_has_applied_is_applied_by_the_next_one() -> None:
    async def story(machine: Machine) -> None:
        await machine.create(container=asking("1"))
        await machine.phase("Running")
        before = await machine.id()
        machine.runtime.trouble("update_container", RuntimeRefused("the container is busy"), times=1000)
        await resize(machine, "2")
        await machine.wait(2)
        status = await machine.status()
        assert condition(status, "PodResizeInProgress")
        assert container_status(status)["resources"]["limits"] == {"cpu": "1"}
        attempts = machine.calls("update_container")
        machine.runtime.trouble("update_container", None, times=0)
        await machine.restart()
        await machine.wait(2)
        status = await machine.status()
        assert machine.calls("update_container") == attempts + 1
        assert container_status(status)["resources"]["limits"] == {"cpu": "2"}
        assert not condition(status, "PodResizeInProgress")
        assert await machine.id() == before
        await machine.restart()
        await machine.wait(2)
        assert machine.calls("update_container") == attempts + 1, "nothing is left to apply"

    play(story)


def test_a_container_may_ask_to_be_restarted_for_it() -> None:
    async def story(machine: Machine) -> None:
        policy = [{"resourceName": "cpu", "restartPolicy": "RestartContainer"}]
        await machine.create(container=asking("1", resizePolicy=policy))
        await machine.phase("Running")
        await resize(machine, "2")
        await machine.wait(2)
        main = container_status(await machine.status())
        assert main["restartCount"] == 1
        assert main["resources"]["limits"] == {"cpu": "2"}
        assert machine.calls("update_container") == 0

    play(story)


def requests_shown(pods: Sequence[JsonObject]) -> str:
    """Return the CPU request of `web`."""
    [found] = [each for each in pods if each["metadata"]["name"] == "web"]
    return found["spec"]["containers"][0]["resources"]["requests"]["cpu"]


def test_a_resize_without_room_is_deferred() -> None:
    async def story(machine: Machine) -> None:
        await machine.create("other", container=asking("2"))
        await machine.phase("Running", "other")
        await machine.create(container=asking("1"))
        await machine.phase("Running")
        await resize(machine, "3")
        await machine.wait(1)
        found = condition(await machine.status(), "PodResizePending")
        assert found["reason"] == "Deferred"
        assert found["message"] == "Node didn't have enough resource: cpu, requested: 3000, used: 2000, capacity: 4000"
        assert container_status(await machine.status())["allocatedResources"] == {"cpu": "1"}
        assert requests_shown(machine.manager.pods()) == "3"
        assert requests_shown(machine.manager.allocated()) == "1", "eviction compares with the allocated amount"
        await machine.pods.delete("other", "default")
        await machine.gone("other")
        await machine.wait(70)
        status = await machine.status()
        assert not condition(status, "PodResizePending")
        assert container_status(status)["allocatedResources"] == {"cpu": "3"}

    play(story)


def test_an_infeasible_resize_is_reported() -> None:
    async def story(machine: Machine) -> None:
        await machine.create(container=asking("1"))
        await machine.phase("Running")
        await resize(machine, "30")
        await machine.wait(1)
        found = condition(await machine.status(), "PodResizePending")
        assert found["reason"] == "Infeasible"
        assert found["message"] == "Node didn't have enough capacity: cpu, requested: 30000, capacity: 4000"
        await machine.restart()
        await machine.wait(2)
        assert container_status(await machine.status())["allocatedResources"] == {"cpu": "1"}, "allocation is kept"
        await resize(machine, "1")
        await machine.wait(1)
        assert not condition(await machine.status(), "PodResizePending")

    play(story)


def test_a_container_for_debugging_joins_a_running_pod() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        target = await machine.id()
        added = {"name": "debugger", "image": IMAGE, "targetContainerName": "main", "terminationMessagePolicy": "File"}
        patch = {"spec": {"ephemeralContainers": [added]}}
        await machine.pods.patch("web", patch, "default", type="strategic", subresource="ephemeralcontainers")
        await machine.wait(1)
        status = await machine.status()
        assert "running" in container_status(status, "debugger")["state"]
        assert await machine.id() == target
        machine.runtime.end_container(await machine.id("debugger"), 1)
        await machine.wait(30)
        status = await machine.status()
        assert container_status(status, "debugger")["state"]["terminated"]["exitCode"] == 1
        assert status["phase"] == "Running"
        assert await machine.running() == ["main"], "it is never started again"

    play(story)
