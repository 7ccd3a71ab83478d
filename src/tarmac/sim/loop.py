"""An event loop with virtual time, which jumps to the next timer when no task is ready.

The loop is asyncio's own, over a selector without sockets. When nothing is ready it advances its time to the next
timer, so an hour of waiting costs nothing. When nothing is ready and no timer is set, no task can ever be woken, and
that raises Deadlock instead of hanging. There are no threads: executor calls run inline.

Runs are reproducible to the byte, in another process too. Two features of asyncio would prevent that: sets of tasks (a
task group cancels its tasks in the order of a set) and finalizers run by the garbage collector at arbitrary times. So
tasks hash by their number instead of their address, and the collector is disabled while the loop runs.
"""

from __future__ import annotations

import asyncio
import gc
from asyncio import base_events
from collections.abc import Callable, Coroutine
from contextvars import Context
from typing import Any, NoReturn, TypeVar

T = TypeVar("T")

EPOCH = 1_800_000_000.0


class Deadlock(RuntimeError):
    """All tasks wait, and no timer is set."""


class _NumberedTask(asyncio.Task[T]):
    """A task with a hash that does not depend on its address in memory."""

    def __init__(self, number: int, *args: Any, **kwargs: Any) -> None:
        self._number = number
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class _NoSockets:
    """The selector: waiting advances the time."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        self._wait = wait

    def select(self, timeout: float | None) -> list[NoReturn]:
        """Advance the time by `timeout` seconds."""
        self._wait(timeout)
        return []


class VirtualLoop(base_events.BaseEventLoop):
    """The loop. Its time starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoSockets(self._pass)
        self._clock_resolution = 1e-6  # far above the rounding error of a float that counts seconds for centuries
        self._time = 0.0
        self._tasks_made = 0
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """Return the virtual seconds since the start."""
        return self._time

    def _pass(self, timeout: float | None) -> None:
        if timeout is None:
            raise Deadlock("all tasks wait, and no timer is set")
        if timeout > 0:
            self._time += timeout

    def _make_task(
        self, _loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None
    ) -> asyncio.Task[Any]:
        self._tasks_made += 1
        return _NumberedTask(self._tasks_made, coro, loop=self, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """Run the function inline, in no virtual time."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def _process_events(self, event_list: list[NoReturn]) -> None:
        """Do nothing: there are no sockets."""

    def _write_to_self(self) -> None:
        """Do nothing: there are no other threads to wake the loop."""


class VirtualClock:
    """The time of a virtual loop as one machine sees it. `jump` moves its wall clock, never its monotonic time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: float = EPOCH) -> None:
        self._loop = loop
        self._epoch = epoch

    def now(self) -> float:
        """Return the wall time in Unix seconds."""
        return self._epoch + self._loop.time()

    def monotonic(self) -> float:
        """Return the seconds since the start."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Sleep. Zero or less yields to other tasks once."""
        await asyncio.sleep(max(0.0, seconds))

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self._epoch += seconds


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `main(loop)` in a new virtual loop, and clean up its remaining tasks."""
    loop = VirtualLoop()
    collecting = gc.isenabled()
    gc.disable()
    asyncio.set_event_loop(loop)
    try:
        return loop.run_until_complete(main(loop))
    finally:
        try:
            _cancel_all(loop)
            loop.run_until_complete(loop.shutdown_asyncgens())
        finally:
            asyncio.set_event_loop(None)
            loop.close()
            if collecting:
                gc.enable()


def _cancel_all(loop: VirtualLoop) -> None:
    left = sorted(asyncio.all_tasks(loop), key=hash)
    for task in left:
        task.cancel()
    if left:
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
