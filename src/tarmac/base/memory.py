"""Keeps a process that lives long as small as what it holds.

glibc gives every thread a heap of its own, and holds on to more freed memory the larger the blocks were. That is right
for programs that allocate in many threads at once; in one that mostly waits it is memory nobody uses.
"""

from __future__ import annotations

import ctypes
from typing import Final

_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8  # of malloc.h
_SETTINGS: Final = {_ARENA_MAX: 1, _MMAP_THRESHOLD: 1 << 17, _TRIM_THRESHOLD: 1 << 19}


def give_back_freed_memory() -> None:
    """To be called before there are threads. Other C libraries than glibc have nothing to set."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        for option, value in _SETTINGS.items():
            set_option(option, value)
