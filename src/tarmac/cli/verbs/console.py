"""The output of a verb, and its terminal."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import TextIO

import msgspec

from tarmac.cli.rendering.text import printable, printable_json


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
        self.say(printable_json(msgspec.json.format(msgspec.json.encode(value), indent=2).decode()) + "\n")

    def info(self, text: str) -> None:
        """Print lines for people. They may quote objects, nodes and servers, which must not control the terminal."""
        print("\n".join(map(printable, text.split("\n"))), file=self.err, flush=True)

    def warn(self, text: str) -> None:
        """Print a warning."""
        self.info(f"warning: {text}")

    def fail(self, text: str) -> None:
        """Print an error."""
        self.info(f"error: {text}")
