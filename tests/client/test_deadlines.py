"""Waits within a process end when they should, and only those."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.client.local import CoarseTimeouts


async def test_results_in_time_are_returned_without_a_pending_cancellation() -> None:
    deadlines = CoarseTimeouts()
    assert await deadlines.within(0.01, asyncio.sleep(0, "here")) == "here"
    await asyncio.sleep(0.15)
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_an_expired_wait_does_not_affect_other_waits() -> None:
    deadlines, there = CoarseTimeouts(), asyncio.get_running_loop().create_future()
    patient = asyncio.create_task(deadlines.within(60, there))
    with pytest.raises(TimeoutError):
        await deadlines.within(0.01, asyncio.Event().wait())
    there.set_result("there")
    assert await patient == "there"


async def test_a_task_that_waits_again_has_its_time_again() -> None:
    deadlines = CoarseTimeouts()
    for _ in range(2):
        with pytest.raises(TimeoutError):
            await deadlines.within(0.01, asyncio.Event().wait())
    assert await deadlines.within(1, asyncio.sleep(0, "here")) == "here"


async def test_being_cancelled_by_others_is_not_being_late() -> None:
    waiting = asyncio.create_task(CoarseTimeouts().within(0.05, asyncio.Event().wait()))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting


async def test_an_error_in_time_stays_that_error() -> None:
    async def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await CoarseTimeouts().within(1, fail())
