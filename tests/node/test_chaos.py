"""Agent, containerd and server are killed at random while pods come and go.

Only killed containers restart, every wanted pod runs in the end, and when all pods are gone the kernel has the same
objects as before. 8 kills, 300 in a soak; at least two in five hit a node in the middle of an operation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.node.chaos import IN_FLIGHT, Chaos, attack, containers_of, eventually, planet_of
from tests.soak import SOAK
from tests.support.tarmac_process import TarmacProcess

KILLS = 300 if SOAK else 8

pytestmark = [pytest.mark.root, pytest.mark.soak(minutes=45), pytest.mark.timeout(0 if SOAK else 400)]


@pytest.fixture
def planet(tmp_path: Path) -> Iterator[TarmacProcess]:
    with planet_of(tmp_path) as process:
        yield process


async def test_nothing_restarts_and_nothing_leaks(planet: TarmacProcess, capfd: pytest.CaptureFixture[str]) -> None:
    async with attack(planet, Chaos) as chaos:
        await _warm_up(chaos)
        before = await asyncio.to_thread(chaos.traces)
        await chaos.storm(KILLS)
        await eventually(chaos.amiss, "what is wanted runs")
        _nothing_restarted(chaos)
        await chaos.clear()
        await chaos.nothing_left(before)
    with capfd.disabled():
        print(f"\n{sum(chaos.kills.values())} kills {dict(chaos.kills)}, {chaos.in_flight} amid an operation; ", end="")
        print(f"{chaos.made} pods made, {len(chaos.first_seen)} seen running, none restarted, nothing left")
    assert chaos.in_flight >= IN_FLIGHT * KILLS


async def _warm_up(chaos: Chaos) -> None:
    """Create and delete a pod of each kind in each city, so that shared objects exist before the first kill."""
    for _ in range(4):
        await chaos.create()
    await eventually(chaos.amiss, "the first pods run")
    await chaos.clear()


def _nothing_restarted(chaos: Chaos) -> None:
    for name, each in chaos.found().items():
        assert [status["restartCount"] for status in each["status"]["containerStatuses"]] == [0], name
        assert containers_of(each) == chaos.first_seen[name], f"{name} was replaced"
