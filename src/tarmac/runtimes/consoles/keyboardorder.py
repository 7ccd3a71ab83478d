"""Ownership of the keyboard: the first session that requests it has it, later ones queue; a takeover goes first.

The previous owner then waits at the head of the queue, so it gets the keyboard back after the takeover.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class KeyboardOrder(Generic[T]):
    """Sessions that want the keyboard, its owner first. Methods return True if the owner changed."""

    def __init__(self) -> None:
        self._wanting: list[T] = []

    @property
    def writer(self) -> T | None:
        """The owner of the keyboard."""
        return self._wanting[0] if self._wanting else None

    def ask(self, who: T, takeover: bool) -> bool:
        """Add a session to the queue, with `takeover` in front."""
        self._wanting.insert(0 if takeover else len(self._wanting), who)
        return self._wanting[0] is who

    def give_up(self, who: T) -> bool:
        """Remove a session from the queue."""
        had = self.writer is who
        self._wanting = [each for each in self._wanting if each is not who]
        return had
