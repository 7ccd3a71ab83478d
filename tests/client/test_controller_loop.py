"""Results and exceptions of a reconciler, keys shared by workers, and the end of the loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from tarmac.api.status import NAMESPACE_TERMINATING, Conflict, Forbidden, NotFound
from tarmac.base.clock import ManualClock
from tarmac.base.randomness import Randomness
from tarmac.client.controller import Controller, RetryAfter, TerminalError, controller_key
from tarmac.client.errors import NotLeader
from tests.client.test_informer_faults import World

Outcome = Callable[[], RetryAfter | None]


class Loop:
    """A controller whose reconciler has a result of the test's choice."""

    def __init__(self, workers: int = 2) -> None:
        self.clock = ManualClock()
        self.calls: list[tuple[float, str]] = []
        self.outcome: Outcome = lambda: None
        self.controller = Controller(
            "test", self.reconcile, clock=self.clock, randomness=Randomness(1), workers=workers
        )

    async def reconcile(self, key: str) -> RetryAfter | None:
        self.calls.append((self.clock.monotonic(), key))
        return self.outcome()

    async def pass_time(self, seconds: float, steps: int = 40) -> None:
        for _ in range(steps):
            for _ in range(12):
                await asyncio.sleep(0)
            self.clock.advance(seconds / steps)
        for _ in range(12):
            await asyncio.sleep(0)


@asynccontextmanager
async def running(loop: Loop) -> AsyncGenerator[Loop]:
    async with asyncio.TaskGroup() as group:
        task = group.create_task(loop.controller.run())
        yield loop
        task.cancel()


def failing(error: Exception) -> Outcome:
    def fail() -> RetryAfter | None:
        raise error

    return fail


async def test_done_is_done() -> None:
    async with running(Loop()) as loop:
        loop.controller.queue.add("a")
        await loop.pass_time(1000)
        assert len(loop.calls) == 1
        assert loop.controller.results == {"success": 1}


async def test_a_reconciler_can_ask_to_come_back() -> None:
    async with running(Loop()) as loop:
        loop.outcome = lambda: RetryAfter(10.0)
        loop.controller.queue.add("a")
        await loop.pass_time(35)
        assert len(loop.calls) == 4


LEAVING = Forbidden("no", details={"causes": [{"reason": NAMESPACE_TERMINATING}]})
FAILURES = [RuntimeError("bug"), Forbidden("no right")]
RACES = [Conflict("changed"), NotFound("gone"), LEAVING]


@pytest.mark.parametrize("error", [*FAILURES, *RACES])
async def test_failures_are_retried_later_and_later(error: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    async with running(Loop()) as loop:
        loop.outcome = failing(error)
        loop.controller.queue.add("a")
        await loop.pass_time(10, steps=400)
        waits = [later - earlier for (earlier, _), (later, _) in zip(loop.calls, loop.calls[1:], strict=False)]
        assert 6 <= len(waits) <= 14
        assert waits[-1] > 10 * waits[0]
        logged = "reconcile failed" in capsys.readouterr().err
        assert logged == (error in FAILURES), "failures are logged, conflicts are not"
        loop.outcome = lambda: None
        await loop.pass_time(600)
        assert loop.controller.results["success"] == 1


async def test_terminal_errors_are_not_retried(capsys: pytest.CaptureFixture[str]) -> None:
    async with running(Loop()) as loop:
        loop.outcome = failing(TerminalError("no such thing"))
        loop.controller.queue.add("a")
        await loop.pass_time(1000)
        assert len(loop.calls) == 1
        assert "reconcile failed terminally" in capsys.readouterr().err


async def test_the_end_of_leadership_ends_the_loop() -> None:
    loop = Loop()
    loop.outcome = failing(NotLeader("over"))
    loop.controller.queue.add("a")
    with pytest.raises(ExceptionGroup) as caught:
        await loop.controller.run()
    assert caught.group_contains(NotLeader)


async def test_stopping_finishes_what_is_ready() -> None:
    loop = Loop()
    for key in "abc":
        loop.controller.queue.add(key)
    loop.controller.stop()
    await loop.controller.run()
    assert [key for _, key in loop.calls] == ["a", "b", "c"]


async def test_cancelling_cancels_the_reconciles_under_way() -> None:
    cancelled: list[str] = []

    async def slow(key: str) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(key)

    controller = Controller("slow", slow, clock=ManualClock(), randomness=Randomness(1), workers=3)
    for key in "abcd":
        controller.queue.add(key)
    task = asyncio.create_task(controller.run())
    for _ in range(10):
        await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert sorted(cancelled) == ["a", "b", "c"]


async def test_nothing_is_reconciled_before_the_caches_are_complete() -> None:
    world = World()
    world.put("a", "1", ownerReferences=[_owner("ConfigMap", "boss")])
    calls: list[str] = []

    async def reconcile(key: str) -> None:
        calls.append(key)

    controller = Controller("test", reconcile, clock=world.clock, randomness=Randomness(1))
    controller.watches(world.informer)
    controller.watches(world.informer, controller_key("ConfigMap"))
    async with asyncio.TaskGroup() as group:
        loop = group.create_task(controller.run())
        await world.settle()
        assert calls == []
        informers = group.create_task(world.informers.run())
        await world.settle()
        assert sorted(calls) == ["default/a", "default/boss"]
        loop.cancel()
        informers.cancel()


async def test_changes_that_come_together_are_looked_at_together() -> None:
    world = World()
    loop = Loop()
    loop.controller.watches(world.informer, controller_key("ConfigMap"), after=0.5)
    for name in ("a", "b", "c"):
        world.put(name, "1", ownerReferences=[_owner("ConfigMap", "boss")])
    async with asyncio.TaskGroup() as group:
        informers = group.create_task(world.informers.run())
        await world.settle()
        async with running(loop):
            await loop.pass_time(0.4)
            assert loop.calls == []
            await loop.pass_time(0.4)
            assert [key for _, key in loop.calls] == ["default/boss"]
        informers.cancel()


def _owner(kind: str, name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "name": name, "uid": "u", "controller": True}
