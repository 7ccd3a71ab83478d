"""Controllers yield the loop after ten milliseconds of a turn, with any amount of work."""

from __future__ import annotations

import asyncio
from collections import Counter

from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.client.controller import Controller
from tarmac.client.local import LocalTransport
from tarmac.client.transport import ClientRequest
from tarmac.client.turns import MAX_SECONDS, loop_budget
from tarmac.controllers.writes import in_batches

UNIT_SECONDS = 0.001
MAX_UNITS_PER_TURN = (
    2 * round(MAX_SECONDS / UNIT_SECONDS) + 1
)  # steps of one turn: those that fit, and those that were woken for it


class Watch:
    """Counts the work between two turns of the loop."""

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.done: Counter[str] = Counter()
        self.longest = self._since = 0

    def work(self, who: str) -> None:
        self.clock.advance(UNIT_SECONDS)
        self.done[who] += 1
        self._since += 1
        self.longest = max(self.longest, self._since)

    async def turn_until(self, total: int) -> int:
        """Return the number of turns until the condition holds."""
        for number in range(100_000):
            if self.done.total() >= total:
                return number
            self._since = 0
            await asyncio.sleep(0)
        raise AssertionError(f"only {self.done.total()} of {total}")


async def test_a_thousand_keys_are_no_single_turn_and_each_is_reconciled() -> None:
    watch = Watch()

    async def reconcile(key: str) -> None:
        watch.work(key)

    controller = Controller("test", reconcile, clock=watch.clock, randomness=Randomness(1), workers=64)
    for number in range(1000):
        controller.queue.add(f"key-{number}")
    running = asyncio.ensure_future(controller.run())
    took = await watch.turn_until(1000)
    controller.stop()
    await running
    assert watch.longest <= MAX_UNITS_PER_TURN
    assert set(watch.done.values()) == {1}
    assert took < 1000, "nor one key in each turn, which would cost too much"


async def test_everybody_who_asks_often_has_a_share() -> None:
    watch = Watch()

    async def ask(who: str) -> None:
        while True:
            await loop_budget(watch.clock).wait()
            watch.work(who)

    tasks = [asyncio.ensure_future(ask(str(number))) for number in range(40)]
    await watch.turn_until(4000)
    for each in tasks:
        each.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    assert watch.longest <= MAX_UNITS_PER_TURN
    assert max(watch.done.values()) < 10 * min(watch.done.values())


async def test_requests_of_one_reconcile_are_bounded_and_those_of_others_are_not() -> None:
    watch = Watch()

    class Answer:
        status, headers, body = 200, None, b"{}"

    def handle(*_: object) -> Answer:
        watch.work("request")
        return Answer()

    async def ask(transport: LocalTransport, times: int) -> None:
        for _ in range(times):
            await transport.request(ClientRequest("GET", "/"))

    bounded = asyncio.ensure_future(ask(LocalTransport(handle, watch.clock), 300))
    await watch.turn_until(300)
    await bounded
    assert watch.longest <= MAX_UNITS_PER_TURN
    await ask(LocalTransport(handle), 100)
    assert watch.longest >= 100


async def test_one_that_is_cancelled_in_line_leaves_its_place_to_the_next() -> None:
    clock = ManualClock()
    done: list[int] = []

    async def ask(number: int) -> None:
        await loop_budget(clock).wait()
        clock.advance(MAX_SECONDS)
        done.append(number)

    tasks = [asyncio.ensure_future(ask(number)) for number in range(30)]
    await asyncio.sleep(0)
    for each in tasks[1::2]:
        each.cancel()
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), 5)
    assert sorted(done) == [0, *range(2, 30, 2)]


async def test_where_time_does_not_pass_within_a_turn_nobody_waits() -> None:
    """The simulator has such a clock, so its results do not depend on the speed of the machine."""
    clock, done = ManualClock(), 0
    for _ in range(1000):
        await loop_budget(clock).wait()
        done += 1
    assert done == 1000


async def test_a_batch_of_writes_is_no_single_turn() -> None:
    """Each write has a preparation, which comes before the request that would wait."""
    watch = Watch()

    async def act(subject: int) -> None:
        watch.work(str(subject))

    running = asyncio.ensure_future(in_batches(act, range(500), watch.clock))
    await watch.turn_until(500)
    await running
    assert watch.longest <= MAX_UNITS_PER_TURN
    assert set(watch.done.values()) == {1}
