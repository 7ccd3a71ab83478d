"""Tables and paragraphs that fit a terminal."""

from __future__ import annotations

import json
import re
import textwrap
from collections.abc import Sequence
from typing import Final

WIDTH: Final = 100
_GAP: Final = "  "
_MIN_LAST_COLUMN: Final = 32  # a narrower last column goes below its row instead
_INDENT: Final = "    "

# Colours and weights, and reset. Concealed or blinking text and all other control sequences are left out.
_STYLE: Final = r"0?[0-4]|7|9|2[1-79]|[349][0-7]|39|49|10[0-7]|[34]8;5;\d{1,3}|[34]8;2;\d{1,3};\d{1,3};\d{1,3}"
_COLOUR: Final = re.compile(rf"(\x1b\[(?:(?:{_STYLE})(?:;(?:{_STYLE}))*)?m)")
_PLAIN: Final = "\x1b[0m"


def table(headers: Sequence[str], rows: Sequence[Sequence[str]], width: int = WIDTH) -> str:
    """Return rows under headers. Empty columns are left out; text in the last column is wrapped."""
    kept = [index for index in range(len(headers)) if any(row[index] for row in rows)]
    cells = [[row[index] for index in kept] for row in ([*headers], *rows)]
    widths = [max(len(row[index]) for row in cells) for index in range(len(kept) - 1)]
    before = sum(widths) + len(_GAP) * len(widths)
    return "\n".join(line for row in cells for line in _row(row, widths, width - before, width))


def _row(cells: Sequence[str], widths: Sequence[int], room: int, width: int) -> list[str]:
    start = "".join(printable(cell).ljust(size) + _GAP for cell, size in zip(cells, widths, strict=False))
    last = cells[-1] if cells else ""
    if room < _MIN_LAST_COLUMN < len(last):
        return [start.rstrip(), *(_INDENT + line for line in _wrapped(last, width - len(_INDENT)))]
    first, *rest = _wrapped(last, max(room, _MIN_LAST_COLUMN)) or [""]
    return [(start + first).rstrip(), *(" " * len(start) + line for line in rest)]


def _wrapped(text: str, width: int) -> list[str]:
    """Wrap text without breaking words."""
    return [printable(line) for line in textwrap.wrap(text, width, break_long_words=False, break_on_hyphens=False)]


def printable(text: str) -> str:
    """Replace unprintable characters, so that untrusted text stays on its line and cannot control the terminal."""
    return text if text.isprintable() else "".join(each if each.isprintable() else "\ufffd" for each in text)


def printable_json(text: str) -> str:
    """Escape unprintable characters of a document, which only strings in it contain; line ends between values stay."""
    return text if text.isprintable() else "".join(map(_json_character, text))


def _json_character(each: str) -> str:
    return each if each.isprintable() or each == "\n" else json.dumps(each)[1:-1]


def escaped(text: str) -> str:
    """Keep the colours of untrusted text and escape all other control sequences."""
    if text.isprintable():
        return text
    parts = _COLOUR.split(text)
    shown = "".join(part if place % 2 else _spelt(part) for place, part in enumerate(parts))
    return shown + _PLAIN if len(parts) > 1 else shown


def _spelt(text: str) -> str:
    return "".join(
        each if each.isprintable() or each == "\t" else each.encode("unicode_escape").decode() for each in text
    )


def paragraph(text: str, width: int = WIDTH) -> str:
    """Wrap text."""
    return "\n".join(_wrapped(text, width))
