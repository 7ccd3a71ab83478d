"""Periodic sizing: new amounts take effect while the node runs, failures change nothing."""

from __future__ import annotations

import asyncio

from tarmac.agent.config.configreader import BadConfig
from tarmac.agent.node.sizes import NodeSizes
from tarmac.agent.sizing.periodic import PeriodicSizing
from tarmac.agent.sizing.providers import ProviderFailed
from tarmac.base.clock import ManualClock
from tarmac.decide.allocatable.reservations import Reservations, Reserved

CAPACITY = {"cpu": 8000, "memory": 8 << 30}


def reservations(cpu: int, by: str = "provider p") -> Reservations:
    return Reservations(kube={"cpu": Reserved(cpu, by)})


class Node:
    """Sizes, the next response, and the recorded events."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.sizes = NodeSizes(CAPACITY, 1000, reservations(1000))
        self.says: Reservations | Exception = reservations(1000)
        self.asked = 0
        self.events: list[tuple[str, str, str]] = []
        self.resizing = PeriodicSizing(
            self._size, lambda: self.sizes.reservations, self._apply, self._event, 10.0, self.clock
        )

    async def _size(self) -> Reservations:
        self.asked += 1
        if isinstance(self.says, Exception):
            raise self.says
        return self.says

    def _apply(self, found: Reservations) -> None:
        self.sizes.reservations = self.sizes.fitting(found)

    def _event(self, type: str, reason: str, message: str) -> None:
        self.events.append((type, reason, message))


async def test_other_amounts_take_effect_and_are_told_with_old_and_new() -> None:
    node = Node()
    node.says = reservations(1500, "provider q")
    await node.resizing.once()
    assert node.sizes.ledger()["cpu"].allocatable == 6500
    told = "Reservations of the node changed: kubeReserved cpu from 1 (provider p) to 1500m (provider q)"
    assert node.events == [("Normal", "SizingChanged", told)]


async def test_the_same_amounts_are_nothing_to_tell() -> None:
    node = Node()
    await node.resizing.once()
    assert node.events == []


async def test_any_failure_leaves_all_as_it_is_and_is_told_as_at_the_start() -> None:
    node = Node()
    for wrong in (
        ProviderFailed('sizing provider "p": exited with code 1'),
        BadConfig("--sizing-provider-config: gone"),
    ):
        node.says = wrong
        await node.resizing.once()
        assert node.events.pop() == ("Warning", "SizingProviderFailed", str(wrong))
    assert node.sizes.ledger()["cpu"].allocatable == 7000


async def test_more_than_the_machine_has_changes_nothing() -> None:
    node = Node()
    node.says = reservations(9000)
    await node.resizing.once()
    assert node.sizes.ledger()["cpu"].allocatable == 7000
    [(kind, reason, message)] = node.events
    assert (kind, reason) == ("Warning", "SizingProviderFailed")
    assert message.startswith(
        'invalid Node Allocatable configuration. Resource "cpu" has a reservation of 9 but capacity'
    )


async def test_it_is_asked_once_a_period_and_no_more_often_after_a_failure() -> None:
    node = Node()
    node.says = ProviderFailed("x")
    running = asyncio.ensure_future(node.resizing.run())
    for asked in (0, 1, 2, 3):
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert node.asked == asked
        node.clock.advance(10)
    running.cancel()


async def test_processors_that_containers_have_to_themselves_stay_reserved_as_they_are() -> None:
    node = Node()
    node.resizing = PeriodicSizing(
        node._size, lambda: node.sizes.reservations, node._apply, node._event, 10.0, node.clock, keep_cpu=True
    )
    node.says = Reservations(kube={"cpu": Reserved(2000, "provider p"), "memory": Reserved(1 << 30, "provider p")})
    for _ in range(2):
        await node.resizing.once()
    assert node.sizes.reservations.held("cpu") == 1000
    assert node.sizes.reservations.held("memory") == 1 << 30
    assert [message for _, _, message in node.events] == [
        "Reservations of the node changed: kubeReserved memory from 0 (nobody) to 1Gi (provider p)",
        "Waits for the next start, since CPU manager policy is static: "
        "kubeReserved cpu from 1 (provider p) to 2 (provider p)",
    ]
