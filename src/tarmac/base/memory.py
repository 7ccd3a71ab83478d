"""Remembering what a function made of a text, where the same few texts come over and over.

Long texts are worked out anew each time: real ones are short, and a cache that is bounded in entries alone could be
filled with megabytes of nonsense by whoever may send a request.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TypeVar

_LONGEST = 256

T = TypeVar("T")
R = TypeVar("R")


def remembered(count: int) -> Callable[[Callable[[T], R]], Callable[[T], R]]:
    """Keep the last `count` results of a function of one hashable value."""

    def decorate(function: Callable[[T], R]) -> Callable[[T], R]:
        cached = lru_cache(count)(function)

        @wraps(function)
        def look_up(value: T) -> R:
            if isinstance(value, str) and len(value) > _LONGEST:
                return function(value)
            return cached(value)

        return look_up

    return decorate
