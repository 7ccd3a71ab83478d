"""Measures growth with the size of the input in CPU time, so that the machine's load does not matter."""

from __future__ import annotations

import gc
import math
import time
from collections.abc import Callable, Sequence

ENOUGH = 0.004  # seconds: shorter work says nothing about growth
SLACK = 3.0
"""The factor above n log n that counts as noise; ten times as much quadratic work costs a hundred times."""

LOOP_SECONDS = 0.05
"""The longest blocking of an event loop."""


ATTEMPTS = 6
"""The most measurements of one size. Other processes on the machine only make work slower."""


def seconds(work: Callable[[], object], enough: float = ENOUGH) -> float:
    """Return the least CPU time of two runs, and of more runs while it exceeds `enough`."""
    found = math.inf
    gc.collect()
    gc.disable()  # a collection scans all live objects, not only those of the work
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
    """Assert growth of at most n log n, and at most `most` seconds at the largest size; return that time."""
    known, earlier, took = sizes[0], seconds(prepare(sizes[0])), 0.0
    for size in sizes[1:]:
        allowed = max(earlier, ENOUGH / 4) * (size / known) * (math.log(size) / math.log(known)) * SLACK
        took = seconds(prepare(size), min(allowed, most) if size == sizes[-1] else allowed)
        assert took <= max(allowed, ENOUGH), f"{known}: {earlier * 1000:.1f} ms, {size}: {took * 1000:.1f} ms"
        known, earlier = size, took
    assert took <= most, f"{sizes[-1]}: {took * 1000:.1f} ms, more than {most * 1000:.0f} ms"
    return took
