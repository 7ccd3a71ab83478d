"""Keeps a process that lives long as small as what it holds.

glibc gives every thread a heap of its own. That is right for programs that allocate in many threads at once; in one
that mostly waits it is memory nobody uses.
"""

from __future__ import annotations

import ctypes

_ARENA_MAX = -8  # of malloc.h


def share_one_heap() -> None:
    """To be called before there are threads. Other C libraries than glibc have nothing to set."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_ARENA_MAX, 1)
