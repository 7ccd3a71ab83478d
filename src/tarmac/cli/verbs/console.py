"""Where a verb prints, and whether somebody watches."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TextIO

import msgspec


@dataclass(frozen=True, slots=True)
class Console:
    """Answers go to `out`, everything else to `err`, as kubectl does it."""

    out: TextIO
    err: TextIO

    @property
    def live(self) -> bool:
        """Whether what was printed can be painted over."""
        return self.out.isatty()

    @property
    def lines(self) -> int:
        """How many lines somebody sees at once."""
        return shutil.get_terminal_size().lines

    def say(self, text: str) -> None:
        """Print an answer that ends with a newline."""
        self.out.write(text)
        self.out.flush()

    def show_json(self, value: object) -> None:
        """Print a document, indented."""
        self.say(msgspec.json.format(msgspec.json.encode(value), indent=2).decode() + "\n")

    def warn(self, text: str) -> None:
        """Say something that is no answer."""
        print(f"warning: {text}", file=self.err)

    def fail(self, text: str) -> None:
        """Say why there is no answer."""
        print(f"error: {text}", file=self.err)
