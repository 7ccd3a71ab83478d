"""Tasks, each with an owner.

asyncio holds tasks weakly: one that nobody keeps may vanish in the middle of its work. A failure that nobody asks for
is told when the garbage collector comes by, if ever, and a task that nobody ends outlives what it works on. So tasks
are begun here only, or in an `asyncio.TaskGroup`, and every one of them has a name for the log:

- `Tasks` belongs to an object that begins work now and then; its `close` ends all of them and waits for that
- `background` is for one piece of work that lasts as long as a block
- `first` waits for whichever of several things happens first
- `supervise` begins work again that must not end

Waiting for the end of a task survives a cancellation of whoever waits: the cancellation is heard when the task has
ended, never lost. `asyncio.wait` alone would leave the task behind, and `suppress(CancelledError)` around `await task`
would take the waiter's own cancellation for the task's.
"""

from __future__ import annotations

import asyncio
import traceback
from asyncio import CancelledError, Future, Task
from collections.abc import AsyncGenerator, Awaitable, Callable, Collection, Coroutine, Iterator
from contextlib import asynccontextmanager
from types import CoroutineType
from typing import Any, TypeVar

from tarmac.base.clock import Clock
from tarmac.base.exhaustion import end_if_out_of_memory
from tarmac.base.log import log

T = TypeVar("T")

_SHORTEST_PAUSE = 1.0
_LONGEST_PAUSE = 30.0
_log = log("tasks")


class Tasks:
    """The tasks of one owner, kept until they are over."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Future[Any], bool] = {}  # in order of their beginning; whether a failure is told by itself

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Future[Any]]:
        return iter(list(self._kept))

    def begin(self, work: Coroutine[Any, Any, T], name: str) -> Task[T]:
        """Have it done. Nobody needs to await it: a failure is logged when it happens."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._kept[task] = True
        task.add_done_callback(self._report)
        return task

    def promise(self, work: Awaitable[T], name: str, then: Callable[[Future[T]], None] | None = None) -> Future[T]:
        """Have it done for somebody who awaits it, and whose the failure is. A future is kept as it is.

        `then` is called at its end and has to call `over` itself: on the way of every request one callback is enough.
        """
        if type(work) is CoroutineType:
            task: Future[T] = asyncio.get_running_loop().create_task(work, name=name)
        else:
            task = asyncio.ensure_future(work)
        self._kept[task] = False
        task.add_done_callback(then or self.over)
        return task

    def over(self, task: Future[Any]) -> None:
        """It has ended."""
        del self._kept[task]

    def cancel(self) -> None:
        """Tell all of them to end, without waiting for it."""
        for task in self:
            task.cancel()

    async def settled(self) -> None:
        """Wait until nothing is under way, what is begun meanwhile included."""
        while self._kept:
            await asyncio.wait(list(self._kept))

    async def close(self, patience: float | None = None) -> None:
        """End all, what is begun meanwhile included, and wait for it; after `patience` seconds leave the others."""
        while kept := {task: told for task, told in self._kept.items() if not task.done()}:
            late = await end(*kept, patience=patience)
            for task, told in kept.items():
                # The failure of a promise is told to whoever awaits it, but at the end there may be nobody.
                if not told and task.done() and (error := _failure(task)) is not None:
                    _log.debug("task ended with an error", task=_name(task), error=repr(error))
            if late:
                _log.warning("tasks do not end; they are left behind", tasks=sorted(map(_name, late)))
                return

    def _report(self, task: Task[Any]) -> None:
        self.over(task)
        error = _failure(task)
        if error is not None:
            end_if_out_of_memory(error)
            _log.error("task failed", task=task.get_name(), traceback="".join(traceback.format_exception(error)))


@asynccontextmanager
async def background(work: Coroutine[Any, Any, T], name: str) -> AsyncGenerator[Task[T]]:
    """Work for as long as the block lasts; it has ended when the block has. If it failed, its error comes out then."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    try:
        yield task
    finally:
        await end(task)
        if not task.cancelled():
            task.result()


async def first(*works: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them is over, and end the others. What failed comes out."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(work, name=getattr(work, "__qualname__", None)) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(*tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


async def end(*tasks: Future[Any], patience: float | None = None) -> set[Future[Any]]:
    """Cancel, and wait for the end; which of them have not ended after `patience` seconds. Their failures stay theirs.

    Whoever is cancelled while waiting here passes it on and goes on waiting: a task that was shielded from the first
    cancellation hears the second.
    """
    for task in tasks:
        task.cancel()
    return await _outlast(tasks, patience, pass_on=True)


async def finished(future: Future[T]) -> T:
    """Its result. It runs to its end even if the waiter is cancelled meanwhile; the waiter hears of that then."""
    try:
        await _outlast((future,), None, pass_on=False)
    except CancelledError:
        _failure(future)  # has been looked at: whoever is cancelled wants no result
        raise
    return future.result()


async def supervise(name: str, run: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Run until cancelled. A failure is logged and the work begun anew, after pauses that grow while it fails."""
    pause = _SHORTEST_PAUSE
    while True:
        began = clock.monotonic()
        try:
            await run()
        except Exception as error:
            end_if_out_of_memory(error)
            _log.error("begins again after a failure", what=name, traceback=traceback.format_exc())
        if clock.monotonic() - began > _LONGEST_PAUSE:
            pause = _SHORTEST_PAUSE
        await clock.sleep(pause)
        pause = min(pause * 2, _LONGEST_PAUSE)


async def _outlast(tasks: Collection[Future[Any]], patience: float | None, *, pass_on: bool) -> set[Future[Any]]:
    """Wait until all are done, whatever happens to the waiter meanwhile; those that are late."""
    loop = asyncio.get_running_loop()
    until = None if patience is None else loop.time() + patience
    cancelled: CancelledError | None = None
    left = {task for task in tasks if not task.done()}
    while left and (until is None or loop.time() < until):
        try:
            _, left = await asyncio.wait(left, timeout=None if until is None else until - loop.time())
        except CancelledError as error:
            cancelled = error
            left = {task for task in left if not task.done()}
            for task in left if pass_on else ():
                task.cancel()
    if cancelled is not None:
        try:
            raise cancelled
        finally:
            del cancelled  # it knows this frame: the two would keep each other alive, and the tasks with them
    return left


def _failure(task: Future[Any]) -> BaseException | None:
    return None if not task.done() or task.cancelled() else task.exception()


def _name(task: Future[Any]) -> str:
    return task.get_name() if isinstance(task, Task) else repr(task)
