"""Runs cooperative work at once, and measures its steps."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any, TypeVar

from tarmac.base.cooperative import CooperativeWork

T = TypeVar("T")


def finished(work: CooperativeWork[T]) -> T:
    """Return the result of the work."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def longest_step(work: Callable[[], CooperativeWork[Any]]) -> float:
    """Return the CPU seconds of the longest step, for which other tasks may have to wait: the best of three.

    On a shared machine a step may once cost several times as much. Objects of the test are not garbage-collected
    meanwhile.
    """
    return _best(lambda: max(_steps(work())))


def least_cpu(work: Callable[[], object]) -> float:
    """Return the CPU seconds that the work takes, the best of three."""

    def once() -> float:
        began = thread_time()
        work()
        return thread_time() - began

    return _best(once)


def _best(measured: Callable[[], float]) -> float:
    gc.collect()
    gc.freeze()
    return min(measured() for _ in range(3))


def _steps(work: CooperativeWork[Any]) -> Iterator[float]:
    going = True
    while going:
        began = thread_time()
        try:
            next(work)
        except StopIteration:
            going = False
        yield thread_time() - began
