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


ATTEMPTS = 6
"""Measurements of one size at most. Neighbours on the machine only ever make work slower."""


def seconds(work: Callable[[], object], enough: float = ENOUGH) -> float:
    """The least CPU time that work took: of two, and of more while it takes longer than `enough`."""
    found = math.inf
    gc.collect()
    gc.disable()  # a collection belongs to everything that is alive, not to the work
    try:
        for attempt in range(ATTEMPTS):
            began = time.process_time()
            work()
            found = min(found, time.process_time() - began)
            if attempt and found <= enough:
                break
    finally:
        gc.enable()
    return found


def assert_grows_gently(
    prepare: Callable[[int], Callable[[], object]], sizes: Sequence[int], most: float = math.inf
) -> float:
    """That work grows at most as n log n, and takes at most so long at its largest; how long that was."""
    known, earlier, took = sizes[0], seconds(prepare(sizes[0])), 0.0
    for size in sizes[1:]:
        allowed = max(earlier, ENOUGH / 4) * (size / known) * (math.log(size) / math.log(known)) * SLACK
        took = seconds(prepare(size), min(allowed, most) if size == sizes[-1] else allowed)
        assert took <= max(allowed, ENOUGH), f"{known}: {earlier * 1000:.1f} ms, {size}: {took * 1000:.1f} ms"
        known, earlier = size, took
    assert took <= most, f"{sizes[-1]}: {took * 1000:.1f} ms, more than {most * 1000:.0f} ms"
    return took
