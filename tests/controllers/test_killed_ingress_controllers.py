"""The controllers of public addresses are killed at each of their writes, before and after the server has received it.

From any state the next process completes the work: one address for the Service at all times, shown while a gateway
announces it, and nothing is left when all objects were deleted.
"""

from __future__ import annotations

import re

import pytest

from tarmac.apps.control_plane import CONTROLLING
from tarmac.base.tasks import background
from tarmac.client.targets.untyped import SERVICES
from tarmac.client.transport import ClientRequest
from tests.controllers.cities import Cities, play
from tests.controllers.mortal import Mortal, When
from tests.controllers.test_public_addresses import ADDRESSES, POOLS, gateway, held, pool, report, service, status

CONTROLLERS = "serviceaccount,garbage,ingress"
STEPS = (
    "DELETE publicaddresses",
    "PATCH addresspools",
    "PATCH addresspools/status",
    "PATCH publicaddresses",
    "PATCH publicaddresses/status",
    "PATCH services/status",
    "POST publicaddresses",
)
_read = re.compile(r"/(addresspools|publicaddresses|services)(?:/[^/]+(/status)?)?$").search


def step_of(request: ClientRequest) -> str:
    """Return the kind of a write; empty for all requests that write none of the three kinds."""
    found = None if request.method == "GET" else _read(request.path)
    return f"{request.method} {found[1]}{found[2] or ''}" if found else ""


async def restarts(cities: Cities, link: Mortal) -> None:
    """Restart the controllers when they are killed, as a supervisor would."""
    await link.killed.wait()
    await cities.stop()
    await cities.wait(1)
    cities.start(CONTROLLERS, way_in=True)


async def follow(cities: Cities, seconds: int) -> list[str]:
    """Let time pass; at no time does the Service hold two addresses. Return the addresses."""
    found = dict[str, list[str]]()
    for _ in range(seconds):
        await cities.wait(1)
        found = await held(cities)
        assert len([names for names in found.values() if names]) <= 1
    return list(found)


async def comes_and_goes(cities: Cities, link: Mortal) -> None:
    await cities.stop()
    cities.start(CONTROLLERS, lambda _: link, way_in=True)
    async with background(restarts(cities, link), "restarts"):
        await gateway(cities)
        await cities.user.resource(POOLS).create(pool())
        await cities.user.resource(SERVICES).create(service())
        (address,) = await follow(cities, 8)
        await report(cities, address, {"name": "dfw-0", "announcing": True})
        await follow(cities, 8)
        assert (await status(cities))[0] == [address]
        await cities.user.resource(SERVICES).delete("web", "default")
        await cities.user.resource(POOLS).delete("public")
        await follow(cities, 8)
        await report(cities, address)
        await follow(cities, 120)
        assert (await cities.user.resource(ADDRESSES).list()).items == []
        assert await cities.gone(cities.user.resource(POOLS), "public")
        assert await cities.gone(cities.user.resource(SERVICES), "web", "default")


def test_the_steps_of_public_addresses_are_all_that_there_are() -> None:
    async def story(cities: Cities) -> None:
        link = Mortal(cities.world.link(CONTROLLING), "none", "before", step_of)
        await comes_and_goes(cities, link)
        assert sorted(link.steps - {""}) == sorted(STEPS)

    play("ingress", story, way_in=True)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_the_next_process_completes_the_public_address(step: str, when: When) -> None:
    async def story(cities: Cities) -> None:
        link = Mortal(cities.world.link(CONTROLLING), step, when, step_of)
        await comes_and_goes(cities, link)
        assert link.killed.is_set(), "the step was not reached"

    play("ingress", story, way_in=True)
