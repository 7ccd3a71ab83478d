"""A noisy client waits for itself; others do not wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

import pytest

from tarmac.api.status import TooManyRequests
from tarmac.server.security.fairness import Fairness
from tests.security.conftest import about, user

NOISY, QUIET, ADMIN = user("noisy"), user("quiet"), user("admin", "system:masters")
GET = about("get", "pods")


class Time:
    """The loop's time, which stands still during a pass."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def time() -> Time:
    return Time()


async def finish(waiting: Awaitable[None] | None) -> None:
    if waiting is not None:
        await asyncio.wait_for(waiting, 2)


async def test_64_requests_in_flight_never_wait(time: Time) -> None:
    fairness = Fairness(time)
    assert fairness.enter(QUIET, GET) is None
    assert [fairness.enter(ADMIN, GET) for _ in range(64)] == [None] * 64


async def test_a_client_alone_is_not_rationed(time: Time) -> None:
    fairness = Fairness(time)
    for _ in range(1000):
        assert fairness.enter(NOISY, GET) is None
        fairness.leave(NOISY, GET)


async def test_with_others_present_a_burst_is_cut_and_the_others_go_first(time: Time) -> None:
    fairness = Fairness(time, burst=10)
    fairness.enter(QUIET, GET)
    entered = [fairness.enter(NOISY, GET) for _ in range(30)]
    assert [waiting is None for waiting in entered] == [True] * 10 + [False] * 20
    assert fairness.waiting == 20
    assert fairness.enter(QUIET, GET) is None
    for waiting in entered:
        await finish(waiting)
    assert fairness.waiting == 0


async def test_a_new_pass_of_the_loop_is_a_new_burst(time: Time) -> None:
    fairness = Fairness(time, burst=10)
    fairness.enter(QUIET, GET)
    assert [fairness.enter(NOISY, GET) for _ in range(10)] == [None] * 10
    time.now += 0.001
    assert [fairness.enter(NOISY, GET) for _ in range(10)] == [None] * 10


async def test_requests_in_flight_are_bounded_per_client(time: Time) -> None:
    fairness = Fairness(time, in_flight=3)
    assert [fairness.enter(NOISY, GET) for _ in range(3)] == [None] * 3
    fourth = fairness.enter(NOISY, GET)
    assert fourth is not None
    task = asyncio.ensure_future(fourth)
    await asyncio.sleep(0.01)
    assert not task.done()
    assert fairness.enter(QUIET, GET) is None
    fairness.leave(NOISY, GET)
    await finish(task)


async def test_too_many_waiting_are_told_to_come_back(time: Time) -> None:
    fairness = Fairness(time, in_flight=1, queue=2)
    fairness.enter(NOISY, GET)
    waiting = [asyncio.ensure_future(entered) for _ in range(2) if (entered := fairness.enter(NOISY, GET))]
    with pytest.raises(TooManyRequests) as refused:
        fairness.enter(NOISY, GET)
    assert (refused.value.http_code, refused.value.headers) == (429, [("Retry-After", "1")])
    assert fairness.enter(QUIET, GET) is None
    for task in waiting:
        task.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)


async def test_a_client_that_gives_up_waiting_leaves_no_trace(time: Time) -> None:
    fairness = Fairness(time, in_flight=1)
    fairness.enter(NOISY, GET)
    tasks = [asyncio.ensure_future(waiting) for _ in range(3) if (waiting := fairness.enter(NOISY, GET))]
    await asyncio.sleep(0)
    tasks[0].cancel()
    await asyncio.gather(tasks[0], return_exceptions=True)
    fairness.leave(NOISY, GET)
    await finish(tasks[1])
    assert not tasks[2].done()
    fairness.leave(NOISY, GET)
    await finish(tasks[2])
    fairness.leave(NOISY, GET)
    assert fairness.enter(NOISY, GET) is None


async def test_giving_up_in_the_moment_of_being_let_through(time: Time) -> None:
    fairness = Fairness(time, in_flight=1)
    fairness.enter(NOISY, GET)
    waiting = fairness.enter(NOISY, GET)
    assert waiting is not None
    task = asyncio.ensure_future(waiting)
    await asyncio.sleep(0)
    fairness.leave(NOISY, GET)
    fairness._drain()
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert fairness.enter(NOISY, GET) is None


async def test_on_the_real_loop_a_quiet_client_overtakes_a_thousand_noisy_requests() -> None:
    fairness = Fairness()
    order: list[str] = []

    async def one(who: str) -> None:
        asker = NOISY if who == "noisy" else QUIET
        await finish(fairness.enter(asker, GET))
        order.append(who)
        fairness.leave(asker, GET)

    fairness.enter(QUIET, GET)
    tasks = [asyncio.create_task(one("noisy")) for _ in range(1000)]
    await asyncio.sleep(0)
    await one("quiet")
    await asyncio.gather(*tasks)
    assert order.index("quiet") < 200
    assert len(order) == 1001
