"""How often programs look for garbage: seldom, and never among what they have made by the time they are ready."""

from __future__ import annotations

import gc

_STARTING = 100_000  # containers: about as many as a program has when it is ready


def collect_later() -> None:
    """Starting makes much that stays and next to no garbage: looking for it every 700 containers finds nothing."""
    gc.set_threshold(_STARTING)


def collect_rarely(threshold: int) -> None:
    """From now on, once for every `threshold` new containers.

    What was made up to here stays, the little garbage of a start (kilobytes) with it; keeping it out of
    collections saves their time and their dirtied pages.
    """
    gc.freeze()
    gc.set_threshold(threshold, 20, 50)
