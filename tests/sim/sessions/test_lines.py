"""Log lines of simulated containers."""

from __future__ import annotations

import asyncio
from typing import Any

from tarmac.agent.http.logs.options import LogOptions
from tarmac.base.clock import Clock
from tarmac.sim.sessions.lines import MAX_LINES, SimulatedLog


class SteppedClock(Clock):
    """A clock that advances by each sleep."""

    def __init__(self, now: float) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def monotonic(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds
        await asyncio.sleep(0)


LOG = SimulatedLog("web in DFW", "dfw-0", "example.com/web:1", 1000.0)


async def read(log: SimulatedLog, now: float, until: float = 0.0, **options: Any) -> list[str]:
    clock = SteppedClock(now)
    found = [chunk async for chunk in log.read(LogOptions(**options), clock, lambda: clock.time < until)]
    return b"".join(found).decode().splitlines()


async def test_a_line_for_the_start_and_one_a_second() -> None:
    assert await read(LOG, 1002.5) == [
        "started example.com/web:1 on dfw-0, a simulated node",
        "1 s: web in DFW is running",
        "2 s: web in DFW is running",
    ]
    assert await read(LOG, 1002.5, tail=1, timestamps=True) == [
        "1970-01-01T00:16:42.000000000Z 2 s: web in DFW is running"
    ]


async def test_followed_lines_arrive_when_they_are_due_and_end_with_the_container() -> None:
    assert await read(LOG, 1002.5, until=1005.2, follow=True, tail=0) == [
        "3 s: web in DFW is running",
        "4 s: web in DFW is running",
        "5 s: web in DFW is running",
    ]


async def test_the_last_line_of_an_ended_container_has_its_code() -> None:
    ended = SimulatedLog("web in DFW", "dfw-0", "example.com/web:1", 1000.0, 1001.5, 1)
    assert (await read(ended, 5000.0))[-2:] == ["1 s: web in DFW is running", "exiting with code 1"]


async def test_only_the_newest_lines_exist_after_months() -> None:
    months = 1000.0 + 1e8
    lines = await read(LOG, months)
    assert (len(lines), lines[-1]) == (MAX_LINES, "100000000 s: web in DFW is running")
