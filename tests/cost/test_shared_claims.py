"""ExternalServices that share a claim cost n log n together, and none of them blocks the loop.

All of them are resolved once, as after a change of their class. Each has as many sources as possible, under one
address, and opens the same port to the same target, so that every one is compared with all older ones.
"""

from __future__ import annotations

from itertools import pairwise
from math import log

import pytest

from tarmac.api.egress.externalservice import MAX_LIST_ITEMS, ExternalService
from tarmac.decide.egress.openings import Openings
from tarmac.decide.egress.sources import Resolution, resolve, resolving
from tests.cost.measuring import ALLOWED
from tests.decide.egress.making import address_class, service
from tests.decide.egress.worlds import Plain, web
from tests.support.working import finished, least_cpu, longest_step

pytestmark = [pytest.mark.timeout(120)]

SIZES = (25, 50, 100)
STEEPEST = 1.5  # times n log n
ENDPOINTS = 1_000


def sharing(count: int) -> Plain:
    """So many ExternalServices, each with 64 Services under the claim `c`."""
    world = Plain(classes={"partner": address_class(inbound={"policy": "FromTarget"}, sharing="Namespace")})
    world.services |= {f"team/web{number}": web("a", "b", name=f"web{number}") for number in range(MAX_LIST_ITEMS)}
    sources = [
        {"service": {"name": f"web{number}"}, "sourceIPClaim": {"name": "c"}} for number in range(MAX_LIST_ITEMS)
    ]
    world.others = [
        service(f"db{number}", created=f"2026-11-16T10:{number // 60:02}:{number % 60:02}Z", sources=sources)
        for number in range(count)
    ]
    return world


def all_resolved(world: Plain) -> list[Resolution]:
    openings = Openings()
    return [finished(resolving(each, world, openings)) for each in world.others]


def test_external_services_that_share_a_claim_cost_n_log_n_together() -> None:
    worlds = {size: sharing(size) for size in SIZES}
    costs = {size: least_cpu(lambda world=world: all_resolved(world)) for size, world in worlds.items()}
    print("\n", *(f"{seconds * 1000:.0f} ms for {size}" for size, seconds in costs.items()))
    for (small, before), (large, after) in pairwise(costs.items()):
        assert after < STEEPEST * before * large * log(large) / (small * log(small)), (small, large)


def test_a_plan_grows_linearly_with_services_that_share_its_claim() -> None:
    """An explanation or a plan has no index yet: it compares with each of the services once."""
    few, many = sharing(25), sharing(100)
    cost = least_cpu(lambda: resolve(few.others[-1], few))
    assert least_cpu(lambda: resolve(many.others[-1], many)) < STEEPEST * 4 * cost


def test_no_step_of_resolving_holds_the_loop() -> None:
    world = sharing(SIZES[-1])
    for number in range(MAX_LIST_ITEMS):
        world.services[f"team/web{number}"] = web(*(f"p{each}" for each in range(ENDPOINTS)), name=f"web{number}")
    assert longest_step(lambda: resolving(world.others[-1], world, Openings())) < ALLOWED


def opened(found: Resolution) -> list[tuple[str, int]]:
    return [(source.key, port.number) for source in found.sources for port in source.open_ports]


def test_the_index_gives_each_port_to_the_oldest_one_in_any_order() -> None:
    world, openings = sharing(3), Openings()
    young, middle, old = reversed(world.others)

    def ports(each: ExternalService) -> list[tuple[str, int]]:
        return opened(finished(resolving(each, world, openings)))

    assert (ports(young), ports(old), ports(middle)) == ([], [("team/web0", 80)], [])
    world.others.remove(old)
    openings.moved.clear()
    openings.drop("team/db0")
    assert openings.moved == {"team/db1"}
    assert (ports(young), ports(middle)) == ([], [("team/web0", 80)])
