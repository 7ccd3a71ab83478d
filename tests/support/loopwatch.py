"""Measures how long an event loop is blocked, in CPU time of its thread, so that a busy machine does not count.

A timer fires every few milliseconds; the CPU time of the thread between two firings is the duration of one pass of the
loop. A second thread checks for an overdue timer and keeps the stack of the code that blocks the loop, so that a stall
has a name. `report` is called with each stall as it ends.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import traceback
from collections.abc import Callable, Generator
from contextlib import contextmanager

LIMIT = 0.05
_BEAT = 0.003


class LoopWatch:
    """Watches the loop of the thread that makes it. `longest` is the longest hold so far, in seconds of CPU."""

    def __init__(self, report: Callable[[float, str], None] | None = None, limit: float = LIMIT) -> None:
        self.longest = 0.0
        self._report = report
        self._limit = limit
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._clock = time.pthread_getcpuclockid(self._thread)
        self._last = time.clock_gettime(self._clock)
        self._stack = ""
        self._collecting = 0.0
        gc.callbacks.append(self._collected)
        self._timer = self._loop.call_later(_BEAT, self._beat)
        self._ended = threading.Event()
        self._looking = threading.Thread(target=self._look, daemon=True)
        self._looking.start()

    def stop(self) -> float:
        """Stop, and return the longest stall."""
        self._timer.cancel()
        gc.callbacks.remove(self._collected)
        self._ended.set()
        self._looking.join()
        return self.longest

    def forget(self) -> None:
        """Reset the figures, so that the start does not count."""
        self.longest, self._last = 0.0, time.clock_gettime(self._clock)

    def _beat(self) -> None:
        now = time.clock_gettime(self._clock)
        held, self._last = now - self._last, now
        if held > self.longest:
            self.longest = held
        if held > self._limit and self._report is not None:
            self._report(held, self._stack)
        self._stack = ""
        self._timer = self._loop.call_later(_BEAT, self._beat)

    def _collected(self, phase: str, info: dict[str, int]) -> None:
        """Report garbage collection, which can block the loop from any code."""
        now = time.clock_gettime(self._clock)
        if phase == "start":
            self._collecting = now
        elif now - self._collecting > self._limit / 2 and threading.get_ident() == self._thread:
            self._stack = f"garbage of generation {info['generation']}: {(now - self._collecting) * 1000:.0f} ms\n"

    def _look(self) -> None:
        while not self._ended.wait(_BEAT * 3):
            if time.clock_gettime(self._clock) - self._last > self._limit * 0.6 and not self._stack:
                frame = sys._current_frames().get(self._thread)
                self._stack = "".join(traceback.format_stack(frame, limit=14)) if frame is not None else ""


@contextmanager
def loop_never_held(limit: float = LIMIT) -> Generator[LoopWatch]:
    """Fail when the block keeps the running loop busy for longer, with the stack of the code that does.

    Existing objects are frozen: a garbage collection inside costs only the garbage of this test, not that of thousands
    of tests before it.
    """
    stalls: list[tuple[float, str]] = []
    gc.collect()
    gc.freeze()
    watch = LoopWatch(lambda held, stack: stalls.append((held, stack)), limit)
    try:
        yield watch
    finally:
        watch.stop()
    assert not stalls, "".join(f"the loop was held {held * 1000:.0f} ms of CPU\n{stack}" for held, stack in stalls[:3])
