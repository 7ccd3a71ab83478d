"""An agent is cut off while pods are deleted: they end once it is connected again."""

from __future__ import annotations

import pytest

from tarmac.api.schema import JsonObject
from tests.agent.pods.machine import Machine, play

AWAY = 600.0


async def force_delete(machine: Machine, name: str = "web") -> None:
    """Delete the object at once, as a controller does that has given the node up, without the agent."""
    await machine.pods.delete(name, "default", grace=0)


async def nothing_left(machine: Machine) -> bool:
    files = [path for path in (machine.root / "pods").rglob("*") if path.is_file()]
    things = (await machine.runtime.containers(), await machine.runtime.sandboxes(), machine.cgroups.made)
    return not any((*things, machine.volumes.mounted, files))


async def running_uids(machine: Machine) -> set[str]:
    """Return the uids of pods with a running container."""
    containers = [each for each in await machine.runtime.containers() if each.state == "running"]
    sandboxes = {each.id: each.pod.uid for each in await machine.runtime.sandboxes()}
    return {sandboxes[each.sandbox_id] for each in containers}


@pytest.mark.parametrize("killed", [False, True], ids=["the same agent", "another agent"])
def test_pods_that_were_deleted_meanwhile_end(killed: bool) -> None:
    async def story(machine: Machine) -> None:
        for name in ("web", "other"):
            await machine.create(name)
            await machine.phase("Running", name)
        machine.unplug_server()
        await machine.wait(AWAY / 2)
        await force_delete(machine, "web")
        await force_delete(machine, "other")
        if killed:
            await machine.restart()
        await machine.wait(AWAY / 2)
        assert len(await running_uids(machine)) == 2, "a cut-off agent ends no pod"
        machine.plug_server_in()
        await machine.until(lambda: nothing_left(machine), 120)
        await machine.restart()
        await machine.wait(60)
        assert await nothing_left(machine), "the next agent finds no checkpoint of them"

    play(story)


@pytest.mark.parametrize("killed", [False, True], ids=["the same agent", "another agent"])
def test_a_pod_that_was_replaced_by_one_of_its_name_makes_room_for_it(killed: bool) -> None:
    async def story(machine: Machine) -> None:
        old = await machine.create()
        await machine.phase("Running")
        machine.unplug_server()
        await force_delete(machine)
        new = await machine.create()
        if killed:
            await machine.restart()
        await machine.wait(AWAY)
        assert await running_uids(machine) == {old["metadata"]["uid"]}
        machine.plug_server_in()

        async def replaced() -> bool:
            return await running_uids(machine) == {new["metadata"]["uid"]}

        await machine.until(replaced, 120)
        await machine.phase("Running")

    play(story)


def test_a_pod_that_is_another_nodes_now_is_not_run_here_too() -> None:
    async def story(machine: Machine) -> None:
        await machine.create()
        await machine.phase("Running")
        machine.unplug_server()
        await force_delete(machine)
        moved: JsonObject = await machine.create(nodeName="n2")
        await machine.wait(AWAY)
        machine.plug_server_in()
        await machine.until(lambda: nothing_left(machine), 120)
        assert (await machine.get())["metadata"]["uid"] == moved["metadata"]["uid"]

    play(story)


def test_a_pod_that_was_evicted_meanwhile_ends_in_its_time() -> None:
    """The taint of an unreachable node marks its pods for deletion: the agent ends the pod before the object goes."""

    async def story(machine: Machine) -> None:
        await machine.create(terminationGracePeriodSeconds=5)
        await machine.phase("Running")
        machine.unplug_server()
        await machine.pods.delete("web", "default")
        await machine.wait(AWAY)
        assert (await machine.get())["metadata"]["deletionTimestamp"]
        machine.plug_server_in()
        await machine.gone()
        await machine.until(lambda: nothing_left(machine), 60)

    play(story)
