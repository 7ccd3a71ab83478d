"""Settings of the cyclic garbage collector: it runs rarely, and never over objects made during start-up.

A collection stops every thread, for a tenth of a second with ten thousand instances.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_START_THRESHOLD = 100_000  # containers: about as many as a process has after start-up
# Traversing one takes one to two microseconds in a large process: up to 20 ms per collection, every other time 40 ms
# including the survivors of the last one, and a full collection only after twenty million.
_NEW, _MIDDLE, _OLD = 10_000, 0, 1000
_MAX_OVERLAPPING = 50  # overlapping uses after which the collector is enabled again


def collect_later() -> None:
    """Raise the threshold during start-up, which allocates much and frees almost nothing."""
    gc.set_threshold(_START_THRESHOLD)


def collect_rarely(new: int = _NEW) -> None:
    """Collect once per `new` new containers from now on: a lower number keeps a process smaller.

    Objects made so far are frozen, with the little garbage of start-up (kilobytes) among them; excluding them from
    collections saves time and dirtied pages.
    """
    gc.freeze()
    gc.set_threshold(new, _MIDDLE, _OLD)


class _Disabled:
    """Active uses of `collector_disabled`, uses since the first of them, and the state of the collector before it."""

    active = 0
    uses = 0
    was_enabled = False


@contextmanager
def collector_disabled() -> Generator[None]:
    """Disable the cyclic garbage collector while the block runs.

    For code that allocates many objects without reference cycles and drops them at its end: collections would traverse
    them again and again and free nothing. Only for the thread of the loop.
    """
    if not _Disabled.active:
        _Disabled.uses, _Disabled.was_enabled = 0, gc.isenabled()
        gc.disable()
    _Disabled.active += 1
    _Disabled.uses += 1
    # Overlapping uses without a pause would otherwise keep it disabled for ever.
    if _Disabled.uses > _MAX_OVERLAPPING and _Disabled.was_enabled:
        gc.enable()
    try:
        yield
    finally:
        _Disabled.active -= 1
        if not _Disabled.active and _Disabled.was_enabled:
            gc.enable()
