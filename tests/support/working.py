"""Work that is done in pieces, all at once."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from time import thread_time
from typing import Any, TypeVar

from tarmac.base.cooperative import CooperativeWork

T = TypeVar("T")


def finished(work: CooperativeWork[T]) -> T:
    """What the work was for."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def longest_step(work: Callable[[], CooperativeWork[Any]]) -> float:
    """Seconds of CPU that the longest piece takes, which is how long others may have to wait: the best of three.

    A machine that others use may take a piece several times its cost for once. What the test itself has made is not
    collected meanwhile.
    """
    return _best(lambda: max(_steps(work())))


def least_cpu(work: Callable[[], object]) -> float:
    """Seconds of CPU that it takes, the best of three."""

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
