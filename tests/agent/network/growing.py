"""Measures how work grows with what it is about, in CPU time, so that a busy machine does not matter."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence

ENOUGH = 0.004  # seconds: what is quicker says nothing about growth
SLACK = 3.0
"""How much worse than n log n counts as noise; ten times as much of something quadratic costs a hundred times."""

LOOP_SECONDS = 0.05
"""What may hold a loop in one go."""


def seconds(work: Callable[[], object], times: int = 3) -> float:
    """The least CPU time that work took."""
    found = math.inf
    gc.collect()
    gc.disable()  # a collection belongs to everything that is alive, not to the work
    try:
        for _ in range(times):
            began = time.process_time()
            work()
            found = min(found, time.process_time() - began)
    finally:
        gc.enable()
    return found


def assert_grows_gently(
    prepare: Callable[[int], Callable[[], object]], sizes: Sequence[int], most: float = math.inf
) -> float:
    """That work grows at most as n log n, and takes at most so long at its largest; how long that was."""
    before: tuple[int, float] | None = None
    took = 0.0
    for size in sizes:
        took = seconds(prepare(size))
        if before is not None and took > ENOUGH:
            known, earlier = before
            allowed = max(earlier, ENOUGH / 4) * (size / known) * (math.log(size) / math.log(known)) * SLACK
            assert took <= allowed, f"{known}: {earlier * 1000:.1f} ms, {size}: {took * 1000:.1f} ms"
        before = size, took
    assert took <= most, f"{sizes[-1]}: {took * 1000:.1f} ms, more than {most * 1000:.0f} ms"
    return took
