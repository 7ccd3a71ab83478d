"""How long an event loop was held, in CPU time of its thread: a machine that others keep busy does not count.

A timer beats every few milliseconds; what the thread has computed between two beats is what one pass of the loop took.
A second thread looks whether a beat is overdue and keeps the stack of whoever holds the loop, so that a stall has a
name. `report` is called with each stall as it ends.
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
        """Look no more; the longest hold."""
        self._timer.cancel()
        gc.callbacks.remove(self._collected)
        self._ended.set()
        self._looking.join()
        return self.longest

    def forget(self) -> None:
        """Begin anew: what was so far was the start."""
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
        """Collecting garbage holds the loop as well, wherever it happens to begin; then it is told so."""
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
    """Fails when what is done inside holds the running loop longer, with the stack of who did.

    What the test process already holds is set aside: collecting garbage inside costs what this test made, not what
    thousands of tests before it left behind.
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
