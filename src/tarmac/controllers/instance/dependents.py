"""Index of waiting Instances by awaited object, so that its appearance requeues exactly these.

This is a hint, not state: reconciling fills it, and all Instances are reconciled when a controller starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarmac.client.cache import Item


class DependentIndex:
    """Keys of waiters by the kind and key of the awaited object."""

    def __init__(self) -> None:
        self._waiters: dict[tuple[str, str], dict[str, None]] = {}  # in order of arrival

    def note(self, waiter: str, kind: str, key: str) -> None:
        """Requeue the waiter at the next change of this object."""
        self._waiters.setdefault((kind, key), {})[waiter] = None

    def woken_by(self, kind: str) -> Callable[[Item[Any]], list[str]]:
        """Return a function from a changed object of this kind to the keys to requeue.

        It drops the returned waiters; a waiter that still needs the object notes itself again.
        """
        return lambda item: list(self._waiters.pop((kind, item.key), ()))
