"""How often programs look for garbage: seldom, and never among what they have made by the time they are ready.

Whoever looks keeps every thread waiting, for a tenth of a second where there are ten thousand instances.
"""

from __future__ import annotations

import gc
from collections.abc import Generator
from contextlib import contextmanager

_STARTING = 100_000  # containers: about as many as a program has when it is ready
# To look through one takes about a microsecond where memory is large: 20 ms at a time, every other time 40 for those
# that were still there the time before, and all of them only after twenty million.
_NEW, _OFTEN, _SELDOM = 20_000, 0, 500
_IN_A_ROW = 50  # pieces of work, one begun before the last has ended, for which there is quiet


def collect_later() -> None:
    """Starting makes much that stays and next to no garbage: looking for it every 700 containers finds nothing."""
    gc.set_threshold(_STARTING)


def collect_rarely(new: int = _NEW) -> None:
    """From now on, once for every so many new containers: fewer keep a program smaller.

    What was made up to here stays, the little garbage of a start (kilobytes) with it; keeping it out of
    collections saves their time and their dirtied pages.
    """
    gc.freeze()
    gc.set_threshold(new, _OFTEN, _SELDOM)


class _Rest:
    """How many want quiet, how many have had it since the first of them, and whether anybody looked before that."""

    asked = 0
    had = 0
    looked = False


@contextmanager
def uncollected() -> Generator[None]:
    """Let nobody look for garbage meanwhile. For work that makes much, none of it in circles, and drops it at its end.

    What such work holds while it goes on would be looked through again and again. For one thread only: the loop's.
    """
    if not _Rest.asked:
        _Rest.had, _Rest.looked = 0, gc.isenabled()
        gc.disable()
    _Rest.asked += 1
    _Rest.had += 1
    if _Rest.had > _IN_A_ROW and _Rest.looked:  # or whoever asks without a pause keeps everybody's garbage for ever
        gc.enable()
    try:
        yield
    finally:
        _Rest.asked -= 1
        if not _Rest.asked and _Rest.looked:
            gc.enable()
