"""How often programs look for garbage: seldom, and never among what they have made by the time they are ready."""

from __future__ import annotations

import gc


def collect_rarely(threshold: int) -> None:
    """From now on, once for every `threshold` new containers.

    What was made up to here stays; keeping it out of collections saves their time and their dirtied pages.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(threshold, 20, 50)
