"""Log lines as text with a prefix for their source, or as JSON."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final
from zlib import crc32

import msgspec

from tarmac.cli.logs.lines import LogLine, LogSource
from tarmac.cli.rendering.text import escaped, printable, printable_json

_COLOURS: Final = (36, 33, 32, 35, 34, 96, 93, 92, 95, 94)
_encode = msgspec.json.encode


class LogLines:
    """Formats lines. `terminal`: escape control sequences in untrusted lines."""

    def __init__(
        self, *, terminal: bool, colour: bool, prefix: bool, timestamps: bool, grep: str = "", json: bool = False
    ) -> None:
        self._escape = escaped if terminal else str
        self._colour = colour
        self._prefixed = prefix
        self._timestamps = timestamps
        self._grep = re.compile(grep) if grep else None
        self._json = json
        self._prefixes: dict[LogSource, str] = {}
        self._width = 0

    def introduce(self, sources: Iterable[LogSource]) -> None:
        """Add sources: their prefixes are aligned."""
        known = dict.fromkeys((*self._prefixes, *sources))
        containers = Counter((each.namespace, each.instance) for each in known)
        names = {each: _name(each, containers[each.namespace, each.instance] > 1) for each in known}
        self._width = max(map(len, names.values()), default=0)
        self._prefixes = {each: self._before(each, name) for each, name in names.items()}

    def text(self, lines: Sequence[tuple[LogSource, LogLine]]) -> str:
        """Return the text of lines."""
        if self._grep is not None:
            lines = [(source, line) for source, line in lines if self._grep.search(line.text)]
        if self._json:
            return "".join(map(_document, lines))
        escape, stamped = self._escape, self._timestamps
        prefixed = self._prefixed or len(self._prefixes) > 1
        before = self._prefixes if prefixed else dict.fromkeys(self._prefixes, "")
        return "".join(
            [
                f"{before[source]}{f'{line.time} ' if stamped and line.time else ''}{escape(line.text)}\n"
                for source, line in lines
            ]
        )

    def _before(self, source: LogSource, name: str) -> str:
        blanks = " " * (self._width - len(name)) + " | "
        if not self._colour:
            return name + blanks
        number = _COLOURS[crc32(source.instance.encode()) % len(_COLOURS)]
        return f"\x1b[{number}m{name}\x1b[0m{blanks}"


def title(source: LogSource) -> str:
    """Return the name of an instance in notices."""
    return printable(f"{source.city or '-'} {source.instance}")


def _name(source: LogSource, several: bool) -> str:
    return title(source) + (f"/{printable(source.container)}" if several else "")


def _document(shown: tuple[LogSource, LogLine]) -> str:
    source, line = shown
    found = {
        "time": line.time,
        "city": source.city,
        "node": source.node,
        "namespace": source.namespace,
        "instance": source.instance,
        "container": source.container,
        "line": line.text,
    }
    return printable_json(_encode(found).decode()) + "\n"
