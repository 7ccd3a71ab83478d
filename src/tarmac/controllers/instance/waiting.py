"""Who waits for which object: so that its appearance wakes exactly those.

This is a hint, not state: it is filled by reconciling, and everything is reconciled when a controller starts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tarmac.client.cache import Item


class Waiting:
    """Keys of waiters by the kind and key of what they wait for."""

    def __init__(self) -> None:
        self._waiters: dict[tuple[str, str], dict[str, None]] = {}  # in the order they came

    def note(self, waiter: str, kind: str, key: str) -> None:
        """The waiter wants to know of the next change of this object."""
        self._waiters.setdefault((kind, key), {})[waiter] = None

    def woken_by(self, kind: str) -> Callable[[Item[Any]], list[str]]:
        """Whom a change of an object of this kind wakes. They are forgotten, and note themselves again if need be."""
        return lambda item: list(self._waiters.pop((kind, item.key), ()))
