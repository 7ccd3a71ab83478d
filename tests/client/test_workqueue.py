"""A work queue keeps each key in order, never gives it to two workers, and retries it with growing delays."""

from __future__ import annotations

import asyncio
import random

from hypothesis import given, seed
from hypothesis import strategies as st

from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.client.workqueue import ShutDown, WorkQueue


def queue(clock: ManualClock | None = None) -> WorkQueue:
    return WorkQueue("test", clock or ManualClock(), Randomness(7))


async def _turns(count: int = 10) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_key_added_many_times_is_worked_on_once() -> None:
    q = queue()
    for key in ("a", "b", "a", "a"):
        q.add(key)
    assert (await q.get(), await q.get(), len(q)) == ("a", "b", 0)


async def test_a_key_added_during_its_work_waits_for_the_end_of_it() -> None:
    q = queue()
    q.add("a")
    assert await q.get() == "a"
    q.add("a")
    q.add("a")
    assert len(q) == 0
    q.done("a")
    assert len(q) == 1
    assert await q.get() == "a"
    q.done("a")
    assert len(q) == 0


async def test_workers_wait_and_are_woken_in_turn() -> None:
    q = queue()
    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(q.get()), group.create_task(q.get())
        await _turns()
        q.add("a")
        q.add("b")
    assert (first.result(), second.result()) == ("a", "b")


async def test_a_cancelled_worker_passes_its_key_on() -> None:
    q = queue()
    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(q.get()), group.create_task(q.get())
        await _turns()
        q.add("a")
        first.cancel()
        assert await second == "a"


async def test_a_worker_cancelled_as_a_key_arrives_is_passed_over() -> None:
    q = queue()
    async with asyncio.TaskGroup() as group:
        first, second = group.create_task(q.get()), group.create_task(q.get())
        await _turns()
        first.cancel()
        q.add("a")
        assert await second == "a"
    assert first.cancelled()


async def test_delayed_keys_come_when_their_time_has_come() -> None:
    clock = ManualClock()
    q = queue(clock)
    async with asyncio.TaskGroup() as group:
        timer = group.create_task(q.run())
        q.add_after("late", 10)
        await _turns()
        q.add_after("early", 5)
        q.add_after("late", 20)
        await _turns()
        assert (len(q), q.delayed) == (0, 2)
        clock.advance(5)
        await _turns()
        assert await q.get() == "early"
        clock.advance(5)
        await _turns()
        assert await q.get() == "late"
        clock.advance(60)
        await _turns()
        assert len(q) == 0, "the earlier schedule replaced the later one"
        timer.cancel()


async def test_adding_now_replaces_a_plan_for_later() -> None:
    clock = ManualClock()
    q = queue(clock)
    async with asyncio.TaskGroup() as group:
        timer = group.create_task(q.run())
        q.add_after("a", 5)
        q.add("a")
        q.done(await q.get())
        clock.advance(10)
        await _turns()
        assert len(q) == 0
        timer.cancel()


async def test_failures_delay_a_key_more_and_more_until_it_succeeds() -> None:
    clock = ManualClock()
    q = queue(clock)
    delays: list[float] = []
    for _ in range(30):
        q.add_rate_limited("a")
        delays.append(max(q._due.values()) - clock.monotonic())
        q._due.clear()
    assert delays[0] < 0.01
    assert all(0.5 * 0.005 * 2**n <= delay <= 1.5 * 0.005 * 2**n for n, delay in enumerate(delays[:15]))
    assert max(delays) <= 1.5 * 300
    assert q.failures("a") == 30
    q.forget("a")
    assert q.failures("a") == 0


async def test_after_shut_down_workers_finish_what_is_ready() -> None:
    q = queue()
    q.add("a")
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(_drain(q))
        await _turns()
        q.shut_down()
        q.add("b")
    assert waiting.result() == ["a"]


async def _drain(q: WorkQueue) -> list[str]:
    taken: list[str] = []
    while True:
        try:
            taken.append(await q.get())
        except ShutDown:
            return taken
        await asyncio.sleep(0)
        q.done(taken[-1])


def test_no_interleaving_breaks_the_promises() -> None:
    """Over random schedules: one worker per key at a time, and a worker always handles the last add of a key."""

    @seed(1)
    @given(st.integers(0, 2**32))
    def schedule(number: int) -> None:
        asyncio.run(_schedule(random.Random(number)))

    schedule()


async def _schedule(dice: random.Random) -> None:
    clock = ManualClock()
    q = queue(clock)
    state = dict.fromkeys("abcd", 0)  # the current state
    handled = dict.fromkeys("abcd", 0)  # the state that the last reconcile saw
    busy: set[str] = set()

    async def worker() -> None:
        while True:
            try:
                key = await q.get()
            except ShutDown:
                return
            assert key not in busy, "one key, two workers"
            busy.add(key)
            seen = state[key]
            for _ in range(dice.randrange(4)):
                await asyncio.sleep(0)
            if dice.random() < 0.2:
                q.add_rate_limited(key)
            else:
                handled[key] = seen
                q.forget(key)
            busy.discard(key)
            q.done(key)

    async with asyncio.TaskGroup() as group:
        timer = group.create_task(q.run())
        for _ in range(3):
            group.create_task(worker())
        for _ in range(60):
            key = dice.choice("abcd")
            state[key] += 1
            q.add(key) if dice.random() < 0.7 else q.add_after(key, dice.random())
            if dice.random() < 0.3:
                await asyncio.sleep(0)
                clock.advance(dice.random())
        while len(q) or q.delayed or q.working:
            await asyncio.sleep(0)
            clock.advance(500)
        assert handled == state
        q.shut_down()
        timer.cancel()
