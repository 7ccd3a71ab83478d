"""The output of a verb, and its terminal."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TextIO

import msgspec


@dataclass(frozen=True, slots=True)
class Console:
    """Results go to `out`, everything else to `err`, as in kubectl."""

    out: TextIO
    err: TextIO

    @property
    def live(self) -> bool:
        """True if printed text can be overwritten."""
        return self.out.isatty()

    @property
    def lines(self) -> int:
        """Height of the terminal in lines."""
        return shutil.get_terminal_size().lines

    def say(self, text: str) -> None:
        """Print a result that ends with a newline."""
        self.out.write(text)
        self.out.flush()

    def show_json(self, value: object) -> None:
        """Print a document, indented."""
        self.say(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")

    def warn(self, text: str) -> None:
        """Print a warning."""
        print(f"warning: {text}", file=self.err)

    def fail(self, text: str) -> None:
        """Print an error."""
        print(f"error: {text}", file=self.err)
