"""Work that is done in pieces, all at once."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from time import thread_time
from typing import Any, TypeVar

from tarmac.base.pieces import Work

T = TypeVar("T")


def finished(work: Work[T]) -> T:
    """What the work was for."""
    while True:
        try:
            next(work)
        except StopIteration as end:
            return end.value


def longest_step(work: Work[Any]) -> float:
    """Seconds of CPU that the longest piece takes, which is how long others may have to wait.

    What the test itself has made is not collected meanwhile.
    """
    gc.collect()
    gc.freeze()
    try:
        return max(_steps(work))
    finally:
        gc.unfreeze()


def _steps(work: Work[Any]) -> Iterator[float]:
    going = True
    while going:
        began = thread_time()
        try:
            next(work)
        except StopIteration:
            going = False
        yield thread_time() - began
