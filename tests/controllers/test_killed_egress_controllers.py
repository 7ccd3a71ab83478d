"""The egress controllers are killed at each of their writes, before and after the server has received it.

A step is a kind of write. From any state the next process completes the work: one address for the claim at all times,
rules for exactly the nodes and the gateways of its pods, and none is left when all objects were deleted.
"""

from __future__ import annotations

import pytest

from tarmac.apps.control_plane import CONTROLLING
from tarmac.base.tasks import background
from tarmac.client.transport import ClientRequest
from tests.controllers.cities import Cities, play
from tests.controllers.mortal import Mortal, When
from tests.controllers.test_external_services import ALL, SERVICES, acknowledge, external, prepare, relays, said
from tests.controllers.test_source_ip_claims import CLAIMS, CLASSES, SOURCE_IPS

STEPS = (
    "DELETE forwarders",
    "DELETE gateways",
    "DELETE sourceips",
    "PATCH externalservices",
    "PATCH externalservices/status",
    "PATCH forwarders",
    "PATCH gateways",
    "PATCH gateways/status",
    "PATCH sourceipclaims",
    "PATCH sourceipclaims/status",
    "PATCH sourceipclasses",
    "PATCH sourceipclasses/status",
    "PATCH sourceips",
    "PATCH sourceips/status",
    "POST forwarders",
    "POST gateways",
    "POST sourceips",
)


def step_of(request: ClientRequest) -> str:
    """Return the kind of a write of external services; empty for all other requests."""
    _, _, path = request.path.partition("/apis/submariner.io/v1alpha1/")
    words = path.split("/")
    words = words[2:] if words[0] == "namespaces" else words
    return "" if not path or request.method == "GET" else f"{request.method} {'/'.join(words[:1] + words[2:])}"


async def restarts(cities: Cities, link: Mortal) -> None:
    """Restart the controllers when they are killed, as a supervisor would."""
    await link.killed.wait()
    await cities.stop()
    await cities.wait(1)
    cities.start(f"serviceaccount,garbage,{ALL}")


async def follow(cities: Cities, seconds: int) -> None:
    """Act as the nodes; at no time is there a second address for the claim, or a second gateway."""
    for _ in range(seconds):
        await cities.wait(1)
        await acknowledge(cities)
        assert len((await cities.user.resource(SOURCE_IPS).list()).items) <= 1
        assert len((await relays(cities))[1]) <= 1


async def comes_and_goes(cities: Cities, link: Mortal) -> None:
    await cities.stop()
    cities.start(f"serviceaccount,garbage,{ALL}", lambda _: link)
    async with background(restarts(cities, link), "restarts"):
        await prepare(cities)
        await cities.user.resource(SERVICES).create(external())
        await follow(cities, 25)
        assert await said(cities) == ("True", "RulesInForce")
        forwarders, (gateway,) = await relays(cities)
        assert {each["spec"]["nodeName"] for each in forwarders} == set(await cities.nodes_of("web-0", "web-1"))
        rules = [rule for each in forwarders for rule in each["spec"]["egressrules"]]
        assert {rule["sourceip"] for rule in gateway["spec"]["egressrules"]} == {rule["transitip"] for rule in rules}
        await cities.user.resource(SERVICES).patch("db", {"spec": {"ports": [{"port": 5433}]}}, "default")
        await follow(cities, 10)
        ports = [rule["destinationport"] for each in (await relays(cities))[0] for rule in each["spec"]["egressrules"]]
        assert set(ports) == {5433}
        await cities.user.resource(SERVICES).delete("db", "default")
        await cities.user.resource(CLAIMS).delete("c", "default")
        await cities.user.resource(CLASSES).delete("partner")
        await follow(cities, 120)
        assert await relays(cities) == ([], [])
        for kind, name, namespace in ((SERVICES, "db", "default"), (CLAIMS, "c", "default"), (CLASSES, "partner", "")):
            assert await cities.gone(cities.user.resource(kind), name, namespace)
        assert (await cities.user.resource(SOURCE_IPS).list()).items == []


def test_the_steps_are_all_that_there_are() -> None:
    async def story(cities: Cities) -> None:
        link = mortal(cities, "none", "before")
        await comes_and_goes(cities, link)
        assert sorted(link.steps - {""}) == sorted(STEPS)

    play(ALL, story)


@pytest.mark.parametrize("when", ["before", "after"])
@pytest.mark.parametrize("step", STEPS)
def test_killed_at_a_step_the_next_process_makes_it_whole(step: str, when: When) -> None:
    async def story(cities: Cities) -> None:
        link = mortal(cities, step, when)
        await comes_and_goes(cities, link)
        assert link.killed.is_set(), "the step was not reached"

    play(ALL, story)


def mortal(cities: Cities, step: str, when: When) -> Mortal:
    return Mortal(cities.world.link(CONTROLLING), step, when, step_of)
