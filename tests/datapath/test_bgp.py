"""Public addresses announced by BGP: clients reach pods, routes end with announcements, calls outlive the speaker."""

from __future__ import annotations

import asyncio
import re
from dataclasses import replace

import pytest

from tarmac.datapath.linux.ingress.speaker import ask
from tarmac.datapath.speaker import ESTABLISHED, SpeakerState
from tests.datapath.bgp_worlds import ROUTED, ROUTED6, WAYS, Edge, answered, both_lead, calls, routed, session
from tests.datapath.ingress_worlds import IngressWorld
from tests.datapath.routers import is_alive, kill, routing, until

pytestmark = [pytest.mark.root, pytest.mark.timeout(120)]


async def test_routes_lead_clients_to_pods_which_see_them_and_end_with_the_announcement(street: IngressWorld) -> None:
    edge = Edge(street)
    await edge.apply(*WAYS)
    with routing(edge.router()) as router:
        await edge.speak(3, 4)
        await both_lead(router, 3, 4)
        assert "(65000,7)" in router.routes("three"), "the community of the pool"
        await edge.reported(3, lambda found: (found.state, found.announced) == (ESTABLISHED, 2))
        async with calls(edge) as made:
            assert await answered(made)
            await edge.speaker(3).keep_only(())
            await both_lead(router, 4)
            assert await answered(made), "another gateway has chosen the same pods"
            await edge.speak(3)
            await both_lead(router, 3, 4)
            assert await answered(made)
        await edge.speak(4, addresses=(ROUTED,))
        await until(lambda: router.next_hops(ROUTED6) == {"fd00:122::3"}, "the route of one family alone")
        for node in (3, 4):
            await edge.speaker(node).announce(())
        await until(lambda: not router.next_hops(ROUTED) | router.next_hops(ROUTED6), "no route")


async def test_calls_go_on_when_the_speaker_is_killed_and_when_its_agent_goes(street: IngressWorld) -> None:
    edge = Edge(street)
    await edge.apply(*WAYS)
    with routing(edge.router()) as router:
        await edge.speak(3)
        await both_lead(router, 3)
        async with calls(edge) as made:
            first = edge.process(3)
            kill(first)
            await until(lambda: not is_alive(first), "the end of BIRD")
            assert await answered(made), "the router keeps the routes, and the kernel forwards"
            async with asyncio.timeout(30):
                while not is_alive(second := edge.process(3)):
                    await edge.speaker(3).check()
                    await asyncio.sleep(0.05)
            # Until its routes are there again: those of the killed one end if it is killed before.
            await edge.reported(3, lambda found: (found.state, found.announced) == (ESTABLISHED, 2))
            await both_lead(router, 3)
            assert await answered(made)
            await street.real.restart(3)
            await until(lambda: not is_alive(second), "BIRD ends with its agent")
            assert await answered(made)
            await street.network(3)
            assert not await street.real.node(3).ingress.apply(routed(3, *WAYS))
            await edge.speaker(3).keep_only((ROUTED, ROUTED6))
            await edge.speak(3)
            assert is_alive(edge.process(3))
            assert edge.process(3) != second
            await edge.reported(3, lambda found: (found.state, found.announced) == (ESTABLISHED, 2))
            await both_lead(router, 3)
            assert await answered(made)


async def test_addresses_beyond_the_limit_of_a_session_are_withheld_and_reported(street: IngressWorld) -> None:
    edge = Edge(street)
    more = [f"203.0.113.{each}" for each in range(20, 25)]
    with routing(edge.router()) as router:
        await edge.speak(3, addresses=more, max_prefixes=3)
        await edge.reported(3, lambda found: found.exported is not None and len(found.exported) == 3)
        exported = (await edge.speaker(3).reports())["edge"].exported or frozenset()
        assert 0 < len(exported) < len(more)
        await until(lambda: frozenset(filter(router.next_hops, more)) == exported, "these routes alone")


async def test_a_changed_configuration_ends_no_session_and_takes_effect(street: IngressWorld) -> None:
    edge = Edge(street)
    with routing(edge.router()) as router:
        await edge.speak(3)
        await both_lead(router, 3)
        began = _since(edge)
        own = session(3)
        await edge.speak(3, pools=(replace(own.pools[0], ranges=("203.0.113.0/24",)),))
        await until(lambda: not router.next_hops(ROUTED6), "the range that the pool lost")
        assert router.next_hops(ROUTED) == {"192.168.122.3"}
        assert _since(edge) == began


def _since(edge: Edge) -> str:
    """Return the time since which the session is established, in seconds: BIRD's milliseconds vary by one."""
    lines = ask(edge.lab.folder / "run-3" / "speaker.ctl", "show protocols")
    return re.sub(r"\.\d+ ", " ", next(line for line in lines if "Established" in line))


async def test_without_sessions_nothing_of_the_speaker_is_left(street: IngressWorld) -> None:
    edge = Edge(street)
    await street.network(3)
    for orderly in (True, False):
        before = street.real.everything(3)
        await edge.speak(3)
        process = edge.process(3)
        assert is_alive(process)
        assert street.real.everything(3) != before
        if orderly:
            await edge.speaker(3).ensure(SpeakerState())
        else:
            kill(process)
            # Another process, which removes what it did not make.
            await street.real.restart(3)
            await street.real.node(3).ingress.remove()
        assert not is_alive(process)
        assert street.real.everything(3) == before
