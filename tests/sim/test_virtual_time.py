"""Time in a simulated world: it jumps when all tasks wait, and at no other moment."""

from __future__ import annotations

import asyncio

import pytest

from tarmac.sim.loop import EPOCH, Deadlock, VirtualClock, VirtualLoop, run


def test_waiting_costs_nothing_and_wakes_in_order() -> None:
    async def main(loop: VirtualLoop) -> list[tuple[str, float]]:
        woken: list[tuple[str, float]] = []

        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            woken.append((name, loop.time()))

        await asyncio.gather(sleeper("a year", 365 * 86400), sleeper("an hour", 3600), sleeper("now", 0))
        return woken

    assert run(main) == [("now", 0.0), ("an hour", 3600.0), ("a year", 365 * 86400.0)]


def test_time_stands_still_while_somebody_works() -> None:
    async def main(loop: VirtualLoop) -> float:
        for _ in range(1000):
            await asyncio.sleep(0)
        return loop.time()

    assert run(main) == 0.0


def test_waiting_for_nobody_is_an_error_not_a_hang() -> None:
    async def main(_loop: VirtualLoop) -> None:
        await asyncio.Event().wait()

    with pytest.raises(Deadlock, match="all tasks wait"):
        run(main)


def test_executor_calls_finish_at_once_in_virtual_time() -> None:
    async def main(loop: VirtualLoop) -> tuple[int, float]:
        done = loop.run_in_executor(None, int, "7")
        assert done.done()
        with pytest.raises(ValueError, match="invalid literal"):
            await loop.run_in_executor(None, int, "seven")
        return await done, loop.time()

    assert run(main) == (7, 0.0)


def test_a_jump_moves_the_wall_clock_of_one_machine_only() -> None:
    async def main(loop: VirtualLoop) -> tuple[float, float, float]:
        here, there = VirtualClock(loop), VirtualClock(loop)
        here.jump(-90)
        await here.sleep(10)
        return here.now() - EPOCH, there.now() - EPOCH, here.monotonic()

    assert run(main) == (-80.0, 10.0, 10.0)


def test_a_group_cancels_its_tasks_in_the_order_they_were_made() -> None:
    async def main(_loop: VirtualLoop) -> list[int]:
        ended: list[int] = []

        async def waiter(number: int) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.append(number)

        async def fail() -> None:
            await asyncio.sleep(1)
            raise ValueError

        try:
            async with asyncio.TaskGroup() as group:
                for number in range(5):
                    group.create_task(waiter(number))
                group.create_task(fail())
        except* ValueError:
            pass
        return ended

    assert run(main) == run(main)


def test_tasks_that_a_world_leaves_behind_are_cancelled() -> None:
    ended: list[str] = []

    async def main(_loop: VirtualLoop) -> None:
        async def lingering() -> None:
            try:
                await asyncio.sleep(1e9)
            finally:
                ended.append("cancelled")

        task = asyncio.create_task(lingering())
        await asyncio.sleep(1)
        assert not task.done()

    run(main)
    assert ended == ["cancelled"]
