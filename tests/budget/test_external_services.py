"""Compiling one ExternalService does not double its cost unnoticed; `test_hot_paths` explains the measurement."""

from __future__ import annotations

from dataclasses import replace

from tarmac.decide.egress.compiling import compile_service
from tarmac.decide.egress.sources import resolve
from tests.budget.test_hot_paths import cost
from tests.decide.egress.making import service
from tests.decide.egress.worlds import Plain, web

COMPILE_BUDGET = 47.0  # thirty pods and two ports, both directions; twice the measured cost


async def test_compiling_one_external_service() -> None:
    names = [f"p{number}" for number in range(30)]
    world = Plain(services={"team/web": web(*names)})
    for number, name in enumerate(names, 2):
        own = {"team/default": [f"10.128.0.{number}"]}
        world.pods[f"team/{name}"] = replace(world.pods["team/a"], uid=f"uid-{name}", addresses=own)
    wanted = service(ports=[{"name": "a", "port": 1}, {"name": "b", "port": 2}])

    def run() -> None:
        for _ in range(20):
            compile_service(resolve(wanted, world), "169.254.192.9", {}, set())

    found = await cost(run, 20)
    print(f"compiling one ExternalService of 30 pods: {found:.1f} turns of the yardstick, at most {COMPILE_BUDGET}")
    assert found < COMPILE_BUDGET
