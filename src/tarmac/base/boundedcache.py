"""A bounded cache for functions of short strings that repeat.

Long strings are not cached: real ones are short, and a client could fill a cache that is bounded only in entries with
megabytes of garbage.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

_MAX_KEY = 256

T = TypeVar("T")
R = TypeVar("R")


def bounded_cache(count: int) -> Callable[[Callable[[T], R]], Callable[[T], R]]:
    """Cache the last `count` results of a function of one hashable value."""

    def decorate(function: Callable[[T], R]) -> Callable[[T], R]:
        cached = lru_cache(count)(function)

        @wraps(function)
        def look_up(value: T) -> R:
            if isinstance(value, str) and len(value) > _MAX_KEY:
                return function(value)
            return cached(value)

        return look_up

    return decorate
