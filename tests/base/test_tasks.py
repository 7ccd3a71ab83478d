"""Tasks have owners: they are named, referenced, ended together, and report failures."""

from __future__ import annotations

import asyncio
import gc
import io
import threading
import weakref
from collections.abc import Iterator
from typing import Any

import pytest

from tarmac.base import log as logs
from tarmac.base.tasks import Tasks, background, end, finished, first


@pytest.fixture
def said() -> Iterator[io.StringIO]:
    stream = io.StringIO()
    logs.configure(level="debug", stream=stream)
    yield stream
    logs.configure()


async def fails() -> None:
    raise RuntimeError("no luck")


async def for_ever() -> None:
    await asyncio.Event().wait()


class Stubborn:
    """Work that ignores cancellations until it is released."""

    def __init__(self) -> None:
        self.heard = 0
        self.let_go = asyncio.Event()

    async def run(self) -> None:
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                self.heard += 1


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


async def test_a_task_has_a_name_and_is_kept_until_it_is_over() -> None:
    tasks, go = Tasks(), asyncio.Event()

    async def work() -> int:
        await go.wait()
        return 7

    task = tasks.begin(work(), "work of a test")
    assert task.get_name() == "work of a test"
    assert len(tasks) == 1
    go.set()
    await tasks.settled()
    assert task.result() == 7
    assert not tasks


async def test_a_failure_that_nobody_awaits_is_logged_once_with_name_and_place(said: io.StringIO) -> None:
    tasks = Tasks()
    tasks.begin(fails(), "unlucky")
    await tasks.settled()
    await tasks.close()
    gc.collect()
    lines = said.getvalue().splitlines()
    assert len(lines) == 1
    assert "task failed task=unlucky" in lines[0]
    assert "in fails" in lines[0]


async def test_the_failure_of_a_promise_belongs_to_whoever_awaits_it(said: io.StringIO) -> None:
    tasks = Tasks()
    with pytest.raises(RuntimeError, match="no luck"):
        await tasks.track(fails(), "promise")
    assert not tasks
    assert said.getvalue() == ""


async def test_a_promise_that_fails_while_its_owner_closes_is_told(said: io.StringIO) -> None:
    async def fails_on_its_way_out() -> None:
        try:
            await for_ever()
        finally:
            raise RuntimeError("could not hang up")

    tasks = Tasks()
    tasks.track(fails_on_its_way_out(), "call")
    await turns()
    await tasks.close()
    assert "task ended with an error task=call" in said.getvalue()
    assert "could not hang up" in said.getvalue()


async def test_a_future_can_be_promised() -> None:
    tasks = Tasks()
    future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    assert tasks.track(future, "somebody else's") is future
    future.set_result(3)
    await turns()
    assert not tasks


async def test_closing_ends_everything_also_what_the_dying_begin() -> None:
    tasks, ended = Tasks(), list[str]()

    async def leaves_an_heir(name: str, heirs: int) -> None:
        try:
            await for_ever()
        finally:
            ended.append(name)
            if heirs:
                tasks.begin(leaves_an_heir(f"{name}'s heir", heirs - 1), "heir")
                await asyncio.sleep(0)

    tasks.begin(leaves_an_heir("a", 1), "a")
    tasks.begin(leaves_an_heir("b", 0), "b")
    await turns()
    await tasks.close()
    assert not tasks
    assert ended[:2] == ["a", "b"]


async def test_closing_ends_when_tasks_ended_in_the_same_turn() -> None:
    tasks = Tasks()
    task = tasks.begin(asyncio.sleep(0), "short")
    while not task.done():
        await asyncio.sleep(0)
    await asyncio.wait_for(tasks.close(), 5)


async def test_a_closer_that_is_cancelled_still_waits_and_passes_it_on() -> None:
    tasks, stubborn = Tasks(), Stubborn()
    tasks.begin(stubborn.run(), "stubborn")
    await turns()
    closing = asyncio.create_task(tasks.close())
    await turns()
    closing.cancel()
    await turns()
    assert stubborn.heard == 2
    assert not closing.done()
    stubborn.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert not tasks


async def test_a_task_that_refuses_to_end_is_named_and_left_behind(said: io.StringIO) -> None:
    tasks, stubborn = Tasks(), Stubborn()
    task = tasks.begin(stubborn.run(), "stubborn")
    tasks.begin(for_ever(), "docile")
    await turns()
    await tasks.close(timeout=0.01)
    assert 'abandoned tasks="[\\"stubborn\\"]"' in said.getvalue()
    assert list(tasks) == [task]
    stubborn.let_go.set()
    await tasks.settled()


async def test_an_ended_task_is_freed_without_the_collector() -> None:
    tasks = Tasks()
    gc.collect()
    gc.disable()
    try:
        gone: list[weakref.ref[asyncio.Task[Any]]] = [
            weakref.ref(tasks.begin(for_ever(), "ended")),
            weakref.ref(tasks.begin(asyncio.sleep(0), "over")),
        ]
        await turns()
        await tasks.close()
        async with background(for_ever(), "ended with its block") as task:
            gone.append(weakref.ref(task))
            await turns()
        del task
        closing = asyncio.create_task(end(asyncio.create_task(for_ever())))
        await turns(1)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        gone.append(weakref.ref(closing))
        del closing
        await turns()
        assert [each() for each in gone] == [None] * 4
    finally:
        gc.enable()


async def test_work_in_the_background_has_ended_when_its_block_has() -> None:
    ended: list[str] = []

    async def work() -> None:
        try:
            await for_ever()
        finally:
            await asyncio.sleep(0)
            ended.append("work")

    async with background(work(), "work") as task:
        await turns()
        assert task.get_name() == "work"
    assert ended == ["work"]


async def test_a_failure_in_the_background_comes_out_with_the_block() -> None:
    with pytest.raises(RuntimeError, match="no luck"):
        async with background(fails(), "unlucky"):
            await turns()


async def test_a_cancellation_at_the_end_of_a_block_is_not_taken_for_that_of_the_task() -> None:
    stubborn = Stubborn()

    async def block() -> str:
        async with background(stubborn.run(), "stubborn"):
            await turns()
        return "as if nobody had cancelled"

    outer = asyncio.create_task(block())
    await turns(20)
    assert stubborn.heard == 1
    outer.cancel()
    await turns()
    stubborn.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await outer


async def test_the_first_of_several_ends_the_others() -> None:
    happened, ended = asyncio.Event(), list[str]()

    async def loser() -> None:
        try:
            await for_ever()
        finally:
            ended.append("loser")

    asyncio.get_running_loop().call_soon(happened.set)
    await first(happened.wait(), loser())
    assert ended == ["loser"]


async def test_a_failure_of_the_first_comes_out() -> None:
    with pytest.raises(RuntimeError, match="no luck"):
        await first(fails(), for_ever())


async def test_nothing_is_left_of_a_wait_that_is_cancelled() -> None:
    before = asyncio.all_tasks()
    waiting = asyncio.create_task(first(for_ever(), for_ever()))
    await turns()
    assert len(asyncio.all_tasks() - before) == 3
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert asyncio.all_tasks() == before


async def test_cancellation_waits_for_work_that_cannot_be_stopped() -> None:
    done, go = list[str](), threading.Event()

    def work() -> None:
        go.wait()
        done.append("work")

    waiting = asyncio.create_task(finished(asyncio.get_running_loop().run_in_executor(None, work)))
    await turns()
    waiting.cancel()
    await turns()
    assert not waiting.done()
    go.set()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    assert done == ["work"]
