"""A metered awaitable reports the loop time of its steps, and passes cancellations and results through."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.base.clock import ManualClock
from tarmac.base.metered import Metered


class Stage:
    """A clock that only work moves, and the reported seconds."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.spent: list[float] = []
        self.ended = False

    def work(self, seconds: float) -> None:
        self.clock.advance(seconds)

    def metered(self, awaitable: object) -> Metered[str]:
        return Metered(awaitable, self.clock.monotonic, self.spent.append)  # type: ignore[arg-type]


async def test_steps_are_counted_and_waits_are_not() -> None:
    stage, gate = Stage(), asyncio.get_running_loop().create_future()

    async def answer() -> str:
        stage.work(1.0)
        await gate
        stage.work(2.0)
        return "done"

    task = asyncio.ensure_future(stage.metered(answer()))
    await asyncio.sleep(0)
    stage.work(50.0)
    gate.set_result(None)
    assert await task == "done"
    assert stage.spent == [1.0, 2.0]


async def test_a_step_that_fails_is_counted() -> None:
    stage = Stage()

    async def fail() -> str:
        stage.work(1.0)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        await stage.metered(fail())
    assert stage.spent == [1.0]


async def test_a_cancellation_reaches_the_awaitable() -> None:
    stage = Stage()

    async def wait() -> str:
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            stage.work(1.0)
            stage.ended = True
        return ""

    task = asyncio.ensure_future(stage.metered(wait()))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (stage.ended, stage.spent) == (True, [0.0, 1.0])


async def test_an_error_that_the_awaitable_handles_is_not_seen() -> None:
    stage, gate = Stage(), asyncio.get_running_loop().create_future()

    async def handle() -> str:
        try:
            await gate
        except OSError:
            return "handled"
        return ""

    task = asyncio.ensure_future(stage.metered(handle()))
    await asyncio.sleep(0)
    gate.set_exception(OSError())
    assert await task == "handled"
