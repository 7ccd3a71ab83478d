"""Who has the keyboard: the first who asked. Others wait in order; somebody who insists takes it.

Whoever it is taken from waits in front of the others, so a takeover is over when it is.
"""

from __future__ import annotations

from typing import Generic, TypeVar

T = TypeVar("T")


class KeyboardOrder(Generic[T]):
    """Sessions that want the keyboard, the one who has it first. Each change says whether somebody else has it now."""

    def __init__(self) -> None:
        self._wanting: list[T] = []

    @property
    def writer(self) -> T | None:
        """Who has it."""
        return self._wanting[0] if self._wanting else None

    def ask(self, who: T, takeover: bool) -> bool:
        """It comes, and wants it."""
        self._wanting.insert(0 if takeover else len(self._wanting), who)
        return self._wanting[0] is who

    def give_up(self, who: T) -> bool:
        """It goes, or wants it no more."""
        had = self.writer is who
        self._wanting = [each for each in self._wanting if each is not who]
        return had
