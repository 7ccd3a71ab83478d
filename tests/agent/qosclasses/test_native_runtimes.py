"""A runtime with its own classes applies those that it announces, for pods and for containers."""

from __future__ import annotations

from typing import Any

import pytest

from tarmac.runtimes.interface import RuntimeClasses, RuntimeClassType, RuntimeRefused
from tests.agent.pods.machine import Machine, play
from tests.agent.qosclasses.imaginary import PERIOD, classed
from tests.agent.qosclasses.test_pods_in_classes import asking, events, pending, resize, shown
from tests.support.nativeruntime import TYPES, NativeRuntime


def test_both_levels_with_places_and_what_the_sandbox_is_told() -> None:
    async def story(machine: Machine) -> None:
        runtime = NativeRuntime(machine.world.clock)
        await classed(machine, runtime=runtime)
        whole: dict[str, Any] = {"resources": {"classes": {"net": "gold", "cache": "small"}}}
        await machine.create(**asking({"blockio": "slow"}), **whole)
        status = await machine.ready()
        assert status["resources"]["classes"] == {"net": "gold"}
        assert await shown(machine) == {"blockio": "slow", "cache": "small"}, "a default for containers"
        assert runtime.told == [{"net": "gold", "pod-qos": "BestEffort"}]
        await machine.create("second", **whole)
        status = await machine.phase("Failed", "second", 1)
        assert status["reason"] == "ClassExhausted"
        assert machine.calls("amend_spec") == 0

    play(story, start=False)


def test_a_change_is_one_call_with_what_changes_and_immutable_types_do_not() -> None:
    async def story(machine: Machine) -> None:
        runtime = NativeRuntime(machine.world.clock)
        await classed(machine, runtime=runtime)
        await machine.create(**asking({"blockio": "slow", "cache": "big"}, requests={"cpu": "100m"}))
        await machine.ready()
        await resize(machine, {"classes": {"blockio": "fast"}, "requests": {"cpu": "200m"}})
        await machine.wait(1)
        assert machine.calls("update_container") == 1
        assert await shown(machine) == {"blockio": "fast", "cache": "big"}
        assert runtime.resources_of(await machine.id()).cpu_shares == 204
        await resize(machine, {"classes": {"cache": "small"}})
        assert await pending(machine, "Infeasible") == (
            "classes of type cache cannot be changed on n1 while a container runs"
        )
        assert machine.calls("update_container") == 1

    play(story, start=False)


def test_a_change_for_the_whole_pod() -> None:
    async def story(machine: Machine) -> None:
        await classed(machine, runtime=NativeRuntime(machine.world.clock))
        await machine.create(resources={"classes": {"net": "gold"}})
        await machine.ready()
        patch = {"spec": {"resources": {"classes": {"net": "tin"}}}}
        await machine.pods.patch("web", patch, "default", type="strategic", subresource="resize")
        await machine.wait(1)
        assert (await machine.status())["resources"]["classes"] == {"net": "tin"}
        assert machine.calls("update_sandbox") == 1

    play(story, start=False)


def test_an_update_that_the_runtime_refuses_touches_nothing_and_is_tried_again() -> None:
    async def story(machine: Machine) -> None:
        runtime = NativeRuntime(machine.world.clock)
        await classed(machine, runtime=runtime)
        await machine.create(**asking({"blockio": "slow"}, requests={"cpu": "100m"}))
        await machine.ready()
        main = await machine.id()
        runtime.trouble("update_container", RuntimeRefused(f'container "{main}" is busy'), times=2)
        await resize(machine, {"classes": {"blockio": "fast"}, "requests": {"cpu": "200m"}})
        await machine.wait(0.5)
        assert runtime.resources_of(main).cpu_shares == 102
        assert await events(machine, "ResizeError") == ['Error resizing container main: container "main" is busy']
        await machine.wait(30)
        assert await shown(machine) == {"blockio": "fast"}
        assert runtime.resources_of(main).cpu_shares == 204

    play(story, start=False)


def test_classes_in_effect_are_those_the_runtime_reports() -> None:
    async def story(machine: Machine) -> None:
        runtime = NativeRuntime(machine.world.clock)
        await classed(machine, runtime=runtime)
        await machine.create(**asking({"cache": "big"}))
        await machine.ready()
        runtime.lose(await machine.id(), "cache")
        await machine.wait(2 * PERIOD)
        assert await shown(machine) == {"cache": ""}
        assert await events(machine, "ClassNotEffective") == ["Container main is not in class cache/big"]

    play(story, start=False)


NO_BIG_CACHE = RuntimeClasses(TYPES.pod, (RuntimeClassType("cache", {"small": 0}, immutable=True),))
NO_CACHE = RuntimeClasses(TYPES.pod, (RuntimeClassType("blockio", {"slow": 2}),))


@pytest.mark.parametrize("left", [NO_BIG_CACHE, NO_CACHE], ids=["class", "type"])
def test_a_class_that_the_runtime_withdraws_keeps_its_containers_and_one_event_says_so(left: RuntimeClasses) -> None:
    async def story(machine: Machine) -> None:
        runtime = NativeRuntime(machine.world.clock)
        await classed(machine, runtime=runtime)
        await machine.create(**asking({"cache": "big"}))
        await machine.ready()
        runtime.types = left
        await machine.wait(3 * PERIOD)
        message = "Class cache/big of container main is not offered any more; what runs stays as it is"
        assert await events(machine, "ClassVanished") == [message]
        assert await shown(machine) == {"cache": "big"}
        assert not await events(machine, "ClassNotEffective")

    play(story, start=False)


def test_a_class_of_whole_pods_that_the_runtime_withdraws_is_an_event_of_the_pod() -> None:
    async def story(machine: Machine) -> None:
        runtime = NativeRuntime(machine.world.clock)
        await classed(machine, runtime=runtime)
        await machine.create(resources={"classes": {"net": "gold"}})
        await machine.ready()
        runtime.types = RuntimeClasses((RuntimeClassType("net", {"tin": 0}),), TYPES.container)
        await machine.wait(3 * PERIOD)
        message = "Class net/gold of the pod is not offered any more; what runs stays as it is"
        assert await events(machine, "ClassVanished") == [message]
        assert (await machine.status())["resources"]["classes"] == {"net": "gold"}

    play(story, start=False)


def test_a_type_at_both_levels_is_offered_at_neither() -> None:
    async def story(machine: Machine) -> None:
        both = RuntimeClassType("blockio", {"slow": 0})
        runtime = NativeRuntime(machine.world.clock, types=RuntimeClasses((both,), (both,)))
        made = await classed(machine, runtime=runtime)
        await machine.wait(3 * PERIOD)
        assert [reason for reason, _ in made.node_events] == ["ClassConflict"]
        await machine.create(**asking({"blockio": "slow"}))
        assert (await machine.phase("Failed", seconds=1))["reason"] == "ClassUnavailable"

    play(story, start=False)
