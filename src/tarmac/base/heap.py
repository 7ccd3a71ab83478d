"""Keeps a process that lives long as small as what it holds.

glibc gives every thread a heap of its own. That is right for programs that allocate in many threads at once; in one
that mostly waits it is memory nobody uses. It keeps what was freed for the next who asks, which after a rare piece of
work that took much is memory nobody uses either. And once a large block was freed it puts large ones among the small,
where the room they leave stays.
"""

from __future__ import annotations

import ctypes

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # of malloc.h
_LARGE = 128 << 10  # glibc's own, which it would raise by itself


def share_one_heap() -> None:
    """To be called before there are threads. Other C libraries than glibc have nothing to set."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_ARENA_MAX, 1)
        set_option(_MMAP_THRESHOLD, _LARGE)


def trim_heap() -> None:
    """Give freed memory back to the machine: some milliseconds, so after much was freed."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
