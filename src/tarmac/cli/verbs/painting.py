"""Text on a terminal that is painted over by the next."""

from __future__ import annotations

from tarmac.cli.verbs.console import Console

_CLEAR_BELOW = "\x1b[J"


class Painting:
    """One piece of text, in the place where it was first."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._painted = ""

    def paint(self, text: str) -> None:
        """Show this instead of what was shown."""
        if text != self._painted:
            height = self._painted.count("\n")
            self._console.say((f"\x1b[{height}A{_CLEAR_BELOW}" if height else "") + text)
            self._painted = text
