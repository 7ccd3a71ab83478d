"""The overhead of virtual machines is charged by their RuntimeClass, which the server restores at start."""

from __future__ import annotations

from typing import Any

from tarmac.apps.bootstrap import ensure_initial_objects
from tarmac.client.targets.target import dynamic
from tests.controllers.planet import Planet, play

CLASSES = dynamic("node.k8s.io/v1", "runtimeclasses", "RuntimeClass", namespaced=False)
OVERHEAD = {"podFixed": {"memory": "192Mi"}}
OTHER = {"podFixed": {"memory": "64Mi"}}


def _classes(planet: Planet) -> Any:
    return planet.user.resource(CLASSES)


async def _overhead_after_start(planet: Planet, before: Any) -> Any:
    await _classes(planet).patch("vm", {"overhead": before})
    await ensure_initial_objects(planet.user)
    return (await _classes(planet).get("vm")).get("overhead")


def test_the_class_of_machines_counts_what_runs_them() -> None:
    async def story(planet: Planet) -> None:
        await ensure_initial_objects(planet.user)
        assert (await _classes(planet).get("vm"))["overhead"] == OVERHEAD
        assert "overhead" not in await _classes(planet).get("gvisor")

    play(story)


def test_a_class_of_an_earlier_server_gets_it_and_one_with_another_keeps_that() -> None:
    async def story(planet: Planet) -> None:
        await ensure_initial_objects(planet.user)
        assert await _overhead_after_start(planet, None) == OVERHEAD
        assert await _overhead_after_start(planet, OTHER) == OTHER

    play(story)
