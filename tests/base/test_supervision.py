"""Supervised work restarts when it ends or fails."""

from __future__ import annotations

import asyncio
import itertools

import pytest

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


async def test_pauses_are_short_again_after_work_that_lasted() -> None:
    clock = ManualClock()
    tries: list[float] = []

    async def lasts_once() -> None:
        tries.append(clock.monotonic())
        if len(tries) == 4:
            await clock.sleep(60)
        raise RuntimeError("no luck")

    async with background(supervise("luck", lasts_once, clock), "work"):
        await settle()
        for _ in range(150):
            clock.advance(0.5)
            await settle()
    pauses = [round(second - first) for first, second in itertools.pairwise(tries)]
    assert pauses[:3] == [1, 2, 4]
    assert pauses[3:5] == [61, 2], "the back-off restarts at one second after a long run"


async def test_work_that_ends_by_itself_is_begun_again_too() -> None:
    clock, begun = ManualClock(), list[float]()

    async def short() -> None:
        begun.append(clock.monotonic())

    async with background(supervise("short", short, clock), "work"):
        await settle()
        clock.advance(1)
        await settle()
    assert len(begun) == 2


async def test_the_end_of_a_block_waits_until_its_task_has_cleaned_up() -> None:
    cleaned = list[str]()

    async def works() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append("up")

    async with background(works(), "work"):
        await settle()
    assert cleaned == ["up"]


async def test_a_task_that_failed_during_the_block_is_told_at_its_end() -> None:
    async def fails() -> None:
        raise LookupError("early")

    with pytest.raises(LookupError, match="early"):
        async with background(fails(), "work"):
            await settle()
