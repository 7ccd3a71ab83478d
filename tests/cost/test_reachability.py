"""Reachability among ten thousand pods and a thousand policies is computed without blocking the event loop.

A thread computes the response; it delays the loop, too, while it holds the interpreter. So the measure is CPU time of
the whole process between two turns of the loop: other programs add nothing to it.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from time import process_time

import msgspec
import pytest

from tarmac.api.schema import JsonObject
from tarmac.apps.control_plane import Address, Chosen, control_plane
from tarmac.apps.layout import Layout
from tests.cost.measuring import ADMIN, ALLOWED, Server, at_best
from tests.cost.test_lists import longest_hold
from tests.decide.reach.worlds import ReachTown, interface

pytestmark = [pytest.mark.timeout(120)]

PODS, POLICIES, APPS = 10_000, 1_000, 500
PATH = "/api/v1/namespaces/shop/pods/p2003/why"
SWITCH_INTERVAL = 0.0005  # as the server has it
COLLECTING = (50_000, 20, 50)


def address(number: int) -> str:
    return f"10.1.{number // 250}.{number % 250 + 1}"


def town() -> ReachTown:
    """Two kinds of policies apply to every pod: one matches ports, the other pods by their labels."""
    made = ReachTown()
    made.network(four="10.0.0.0/8")
    for number in range(PODS):
        labels = {"app": f"app{number % APPS}", "kind": "ports" if number % 2 else "pods"}
        made.pod(f"p{number}", interface(address(number), six=False), node=f"n{number % 2 + 1}", labels=labels)
    for number in range(POLICIES):
        chosen = {"app": f"app{number % APPS}", "kind": "ports" if number % 2 else "pods"}
        peers: JsonObject = {"from": [{"podSelector": {"matchLabels": {"app": f"app{(number + 1) % APPS}"}}}]}
        rule = {"ports": [{"port": 80}], **(peers if number % 2 == 0 else {})}
        made.policy(f"r{number}", {"selector": {"matchLabels": chosen}, "ingress": [rule]})
    made.service("all", "10.96.0.1", 80, *((address(number), 80) for number in range(0, PODS, 10)))
    return made


QUESTIONS = {
    "a pod": "reach=pod/p2001&port=80",
    "a pod whose policies mean pods": "reach=pod/p2000&port=80",
    "an address": f"reach={address(2001)}&port=80",
    "an address outside": "reach=192.0.2.1&port=80",
    "a Service of a thousand pods": "reach=service/all&port=80",
    "both ways": "reach=pod/p2000&port=80&both=true",
}


@pytest.fixture
async def server(tmp_path: Path) -> AsyncGenerator[Server]:
    layout = Layout(tmp_path, tmp_path / "pki", tmp_path / "secrets.key", "memory://")
    interval, threshold = sys.getswitchinterval(), gc.get_threshold()
    async with control_plane(layout, Address("127.0.0.1", 0), Chosen("garbage")) as running:
        written = [
            running.store.create(resource, key, msgspec.json.encode(obj))
            for resource, objects in town().objects.items()
            for key, obj in objects.items()
        ]
        await asyncio.gather(*written)
        sys.setswitchinterval(SWITCH_INTERVAL)
        gc.collect()
        gc.freeze()  # objects of the test are not collected meanwhile
        gc.set_threshold(*COLLECTING)
        yield Server(running.server)
        gc.set_threshold(*threshold)
        sys.setswitchinterval(interval)


async def test_a_question_holds_nobody_up(server: Server) -> None:
    slow: list[str] = []
    for what, query in QUESTIONS.items():
        assert (await server.send("GET", PATH, query=query, user=ADMIN)).status == 200, what

        async def once(query: str = query) -> float:
            return await longest_hold(server.send("GET", PATH, query=query, user=ADMIN), process_time)

        hold = await at_best(once)
        print(f"{hold * 1000:6.1f} ms  {what}")
        slow += [f"{what}: {hold * 1000:.1f} ms"] if hold > ALLOWED else []
    assert not slow
