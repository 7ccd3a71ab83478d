"""Usage of simulated pods, added up by node."""

from __future__ import annotations

from collections.abc import Awaitable
from types import SimpleNamespace
from typing import cast

from tarmac.base.clock import SystemClock
from tarmac.sim.nodes.fleet import SimulatedNodes
from tarmac.sim.simulatedload import SimulatedMetrics

PODS = 30_000  # far more than one slice of the loop can add up


def metrics(pods: int) -> SimulatedMetrics:
    nodes = {name: SimpleNamespace(name=name, hears=name != "lost") for name in ("dfw-0", "sea-0", "lost")}
    placed = [
        SimpleNamespace(
            name=f"web-{number}", node=[*nodes][number % 3], runs=True, annotations={"sim.tarmac/cpu": "1m"}
        )
        for number in range(pods)
    ]
    fleet = SimpleNamespace(nodes=nodes, pods=lambda: iter(placed))
    return SimulatedMetrics(cast("SimulatedNodes", fleet), SystemClock())


async def test_usage_of_many_pods_is_added_up_in_several_turns_of_the_loop() -> None:
    found = metrics(PODS).nodes()
    assert isinstance(found, Awaitable)
    assert {each["metadata"]["name"]: each["usage"]["cpu"] for each in await found} == {
        "dfw-0": "10010m",  # 10,000 pods and the node itself
        "sea-0": "10010m",
    }


async def test_usage_of_few_pods_is_there_at_once() -> None:
    found = metrics(30).nodes()
    assert not isinstance(found, Awaitable)
    assert [each["usage"]["cpu"] for each in found] == ["20m", "20m"]
