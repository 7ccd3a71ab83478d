"""Events between parts of one process that need each other: one raises a signal, the other has subscribed to it.

Both get the signal in their constructor, so neither has to exist before the other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, ParamSpec

_Arguments = ParamSpec("_Arguments")


class Signal(Generic[_Arguments]):
    """Calls its listeners, in the order of their subscription. Without listeners nothing happens."""

    def __init__(self) -> None:
        self._listeners: list[Callable[_Arguments, None]] = []

    def subscribe(self, listener: Callable[_Arguments, None]) -> None:
        """Call `listener` each time the signal is raised."""
        self._listeners.append(listener)

    def __call__(self, *args: _Arguments.args, **kwargs: _Arguments.kwargs) -> None:
        """Raise the signal."""
        for listener in self._listeners:
            listener(*args, **kwargs)
