"""Tasks, each with an owner.

asyncio holds tasks weakly: an unreferenced task may vanish in the middle of its work. A failure that is never retrieved
is logged by the garbage collector late or never, and a task that is never cancelled outlives the objects it works on.
So tasks are created here only, or in an `asyncio.TaskGroup`, and every one of them has a name for the log:
- `Tasks` belongs to an object that starts work now and then; its `close` cancels all of them and waits
- `background` runs work for the duration of a block
- `first` waits for the first of several coroutines
- `supervise` restarts work that must not end

Waiting for the end of a task survives a cancellation of the waiter: the cancellation is delivered when the task has
ended, never lost. `asyncio.wait` alone would leave the task behind, and `suppress(CancelledError)` around `await task`
would confuse the waiter's own cancellation with the task's.
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

_MIN_DELAY = 1.0
_MAX_DELAY = 30.0
_log = log("tasks")


class Tasks:
    """The tasks of one owner, referenced until they end."""

    __slots__ = ("_kept",)

    def __init__(self) -> None:
        self._kept: dict[Future[Any], bool] = {}  # in order of their start; True if a failure is logged by itself

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[Future[Any]]:
        return iter(list(self._kept))

    def begin(self, work: Coroutine[Any, Any, T], name: str) -> Task[T]:
        """Start a task that needs no awaiting: a failure is logged when it happens."""
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._kept[task] = True
        task.add_done_callback(self._report)
        return task

    def track(self, work: Awaitable[T], name: str, then: Callable[[Future[T]], None] | None = None) -> Future[T]:
        """Start a task for a caller that awaits it and handles its failure. A future is kept as it is.

        `then` is called at its end and has to call `discard` itself: every request passes here, and one callback is
        enough.
        """
        if type(work) is CoroutineType:
            task: Future[T] = asyncio.get_running_loop().create_task(work, name=name)
        else:
            task = asyncio.ensure_future(work)
        self._kept[task] = False
        task.add_done_callback(then or self.discard)
        return task

    def discard(self, task: Future[Any]) -> None:
        """Remove an ended task."""
        del self._kept[task]

    def cancel(self) -> None:
        """Cancel all tasks, without waiting."""
        for task in self:
            task.cancel()

    async def settled(self) -> None:
        """Wait until no task is running, tasks started meanwhile included."""
        while self._kept:
            await asyncio.wait(list(self._kept))

    async def close(self, timeout: float | None = None) -> None:
        """Cancel all tasks, also those started meanwhile, and wait; after `timeout` seconds leave the rest."""
        while kept := {task: reported for task, reported in self._kept.items() if not task.done()}:
            late = await end(*kept, timeout=timeout)
            for task, reported in kept.items():
                # The failure of a tracked task belongs to its awaiter, but at shutdown there may be none.
                if not reported and task.done() and (error := _failure(task)) is not None:
                    _log.debug("task ended with an error", task=_name(task), error=repr(error))
            if late:
                _log.warning("tasks did not end in time and are abandoned", tasks=sorted(map(_name, late)))
                return

    def _report(self, task: Task[Any]) -> None:
        self.discard(task)
        error = _failure(task)
        if error is not None:
            end_if_out_of_memory(error)
            _log.error("task failed", task=task.get_name(), traceback="".join(traceback.format_exception(error)))


@asynccontextmanager
async def background(work: Coroutine[Any, Any, T], name: str) -> AsyncGenerator[Task[T]]:
    """Run work for the duration of the block; at its end the work is cancelled and awaited. Raises the work's error."""
    task = asyncio.get_running_loop().create_task(work, name=name)
    try:
        yield task
    finally:
        await end(task)
        if not task.cancelled():
            task.result()


async def first(*works: Coroutine[Any, Any, object]) -> None:
    """Wait until one of them ends, and cancel the rest. Raises the first failure."""
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(work, name=getattr(work, "__qualname__", None)) for work in works]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await end(*tasks)
    for task in tasks:
        if not task.cancelled():
            task.result()


async def end(*tasks: Future[Any], timeout: float | None = None) -> set[Future[Any]]:
    """Cancel and wait; returns the tasks still running after `timeout` seconds. Does not raise their failures.

    A cancellation of the waiter is passed on to the tasks, and the wait continues: a task that was shielded from the
    first cancellation gets the second.
    """
    for task in tasks:
        task.cancel()
    return await _outlast(tasks, timeout, pass_on=True)


async def finished(future: Future[T]) -> T:
    """Return the result. The future runs to its end even if the waiter is cancelled; that is delivered afterwards."""
    try:
        await _outlast((future,), None, pass_on=False)
    except CancelledError:
        _failure(future)  # retrieved, or asyncio logs it: a cancelled waiter wants no result
        raise
    return future.result()


async def supervise(name: str, run: Callable[[], Awaitable[None]], clock: Clock) -> None:
    """Run until cancelled. A failure is logged and the work restarted, with back-off."""
    delay = _MIN_DELAY
    while True:
        began = clock.monotonic()
        try:
            await run()
        except Exception as error:
            end_if_out_of_memory(error)
            _log.error("work failed, restarting", work=name, traceback=traceback.format_exc())
        if clock.monotonic() - began > _MAX_DELAY:
            delay = _MIN_DELAY
        await clock.sleep(delay)
        delay = min(delay * 2, _MAX_DELAY)


async def _outlast(tasks: Collection[Future[Any]], timeout: float | None, *, pass_on: bool) -> set[Future[Any]]:
    """Wait until all are done, also across cancellations of the waiter; returns those that are late."""
    loop = asyncio.get_running_loop()
    until = None if timeout is None else loop.time() + timeout
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
            del cancelled  # it references this frame: the cycle would keep the tasks alive
    return left


def _failure(task: Future[Any]) -> BaseException | None:
    return None if not task.done() or task.cancelled() else task.exception()


def _name(task: Future[Any]) -> str:
    return task.get_name() if isinstance(task, Task) else repr(task)
