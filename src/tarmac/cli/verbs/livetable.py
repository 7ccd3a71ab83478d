"""Text on a terminal that is redrawn in place."""

from __future__ import annotations

from tarmac.cli.verbs.console import Console

_CLEAR_BELOW = "\x1b[J"


class Painting:
    """One text at a fixed position."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._painted = ""

    def paint(self, text: str) -> None:
        """Replace the shown text."""
        if text != self._painted:
            height = self._painted.count("\n")
            self._console.say((f"\x1b[{height}A{_CLEAR_BELOW}" if height else "") + text)
            self._painted = text
