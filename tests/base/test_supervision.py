"""Work that must not end is begun again when it fails."""

from __future__ import annotations

import asyncio
import itertools

from tarmac.base.clock import ManualClock
from tarmac.base.tasks import background, supervise


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


async def test_a_failure_is_followed_by_another_try_after_growing_pauses() -> None:
    clock = ManualClock()
    tries: list[float] = []

    async def fails() -> None:
        tries.append(clock.monotonic())
        raise RuntimeError("no luck")

    start = clock.monotonic()
    async with background(supervise("luck", fails, clock), "luck"):
        await settle()
        for _ in range(70):
            clock.advance(0.5)
            await settle()
    pauses = [round(second - first) for first, second in itertools.pairwise(tries)]
    assert tries[0] == start
    assert pauses[:4] == [1, 2, 4, 8]
