"""An event loop without a machine: time is a number that jumps when everybody waits.

The loop is asyncio's own, over a selector that never sees a socket. When nothing is ready it moves its time to the
next timer, so an hour of waiting costs nothing; when nothing is ready and no timer is set, nobody can ever wake
anybody, and that is an error rather than a hang. There are no threads: what wants one is done on the spot.

Everything that runs here is repeatable, to the byte, in another process too. Two things in asyncio would spoil that:
sets of tasks (a task group cancels its tasks in the order of a set) and finalizers that the garbage collector runs when
it pleases. So tasks hash by their number instead of their address, and the collector rests while the loop runs.
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
    """Everybody waits for somebody else."""


class _NumberedTask(asyncio.Task[T]):
    """A task whose place in a set does not depend on where it lies in memory."""

    def __init__(self, number: int, *args: Any, **kwargs: Any) -> None:
        self._number = number
        super().__init__(*args, **kwargs)

    def __hash__(self) -> int:
        return self._number


class _NoSockets:
    """The selector: waiting is moving the time."""

    def __init__(self, wait: Callable[[float | None], None]) -> None:
        self._wait = wait

    def select(self, timeout: float | None) -> list[NoReturn]:
        """Let `timeout` seconds pass."""
        self._wait(timeout)
        return []


class VirtualLoop(base_events.BaseEventLoop):
    """The loop. Its time starts at zero."""

    def __init__(self) -> None:
        super().__init__()
        self._selector = _NoSockets(self._pass)
        self._clock_resolution = 1e-6  # far above the rounding of a float that counts seconds for centuries
        self._time = 0.0
        self._tasks_made = 0
        self.set_task_factory(self._make_task)

    def time(self) -> float:
        """Seconds that have passed in this world."""
        return self._time

    def _pass(self, timeout: float | None) -> None:
        if timeout is None:
            raise Deadlock("everybody waits, and no timer is set")
        if timeout > 0:
            self._time += timeout

    def _make_task(
        self, _loop: asyncio.AbstractEventLoop, coro: Any, context: Context | None = None
    ) -> asyncio.Task[Any]:
        self._tasks_made += 1
        return _NumberedTask(self._tasks_made, coro, loop=self, context=context)

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:
        """What wants a thread is done at once, and takes no time."""
        done: asyncio.Future[T] = self.create_future()
        try:
            done.set_result(func(*args))
        except Exception as error:
            done.set_exception(error)
        return done

    def _process_events(self, event_list: list[NoReturn]) -> None:
        """There are no sockets here."""

    def _write_to_self(self) -> None:
        """There is no other thread that could have called."""


class VirtualClock:
    """The time of a virtual loop as one machine sees it. `jump` moves its wall clock, never the passing of time."""

    def __init__(self, loop: asyncio.AbstractEventLoop, epoch: float = EPOCH) -> None:
        self._loop = loop
        self._epoch = epoch

    def now(self) -> float:
        """Wall time in Unix seconds."""
        return self._epoch + self._loop.time()

    def monotonic(self) -> float:
        """Seconds since the world began."""
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        """Wait. Zero or less yields to other tasks once."""
        await asyncio.sleep(max(0.0, seconds))

    def jump(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self._epoch += seconds


def run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]]) -> T:
    """Run `main(loop)` in a world of its own, and clear up what it left behind."""
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
