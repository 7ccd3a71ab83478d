"""Keeps the heap of a long-running process small.

glibc gives every thread a separate heap. That suits programs that allocate in many threads at once; in a process that
mostly waits it wastes memory. It also keeps freed memory for later allocations, which is wasted after a rare peak. And
once a large block was freed it places further large blocks among the small ones, where their gaps remain.
"""

from __future__ import annotations

import ctypes

_MMAP_THRESHOLD, _ARENA_MAX = -3, -8  # of malloc.h
_MMAP_BYTES = 128 << 10  # glibc's default, which it would raise by itself


def share_one_heap() -> None:
    """Use one heap for all threads. Call it before threads exist. Does nothing on C libraries other than glibc."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        set_option(_ARENA_MAX, 1)
        set_option(_MMAP_THRESHOLD, _MMAP_BYTES)


def trim_heap() -> None:
    """Return freed memory to the host. Takes some milliseconds, so call it after freeing much."""
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
