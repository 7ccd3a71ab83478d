"""Self-tests of many addresses on one node: a test that times out does not delay the rest."""

from __future__ import annotations

import asyncio
from typing import cast

from tarmac.agent.ingress.selftests import SelfTests
from tarmac.base.clock import SystemClock
from tarmac.base.tasks import background
from tarmac.datapath.ingress import IngressDatapath
from tests.agent.egress.nodes import until


class Connections:
    """The part of a datapath that connects. Connections to `silent` addresses never end; `made` are all, in order."""

    def __init__(self) -> None:
        self.silent: set[str] = set()
        self.made: list[str] = []

    async def connect(self, address: str, _port: int, _timeout: float) -> None:
        self.made.append(address)
        if address in self.silent:
            await asyncio.Event().wait()


async def test_silent_addresses_do_not_delay_the_first_test_of_a_new_address() -> None:
    connections = Connections()
    tests = SelfTests(cast("IngressDatapath", connections), SystemClock(), lambda: None)
    connections.silent = {f"203.0.113.{number}" for number in range(1, 31)}
    async with background(tests.run(), "self-tests"):
        tests.ensure(dict.fromkeys(connections.silent, 80), connections.silent)
        await until(lambda: len(connections.made) == len(connections.silent))
        known = {*connections.silent, "198.51.100.1"}
        tests.ensure(dict.fromkeys(known, 80), known)
        await until(lambda: tests.states().get("198.51.100.1") == "Passed")


async def test_an_address_has_one_test_at_a_time() -> None:
    connections = Connections()
    tests = SelfTests(cast("IngressDatapath", connections), SystemClock(), lambda: None)
    connections.silent = {"203.0.113.1"}
    async with background(tests.run(), "self-tests"):
        for _ in range(3):
            tests.ensure({"203.0.113.1": 80, "198.51.100.1": 80}, {"203.0.113.1", "198.51.100.1"})
            await until(lambda: tests.states().get("198.51.100.1") == "Passed")
    assert connections.made.count("203.0.113.1") == 1
