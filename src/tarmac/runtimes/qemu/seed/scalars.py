"""YAML values with a fixed layout. Small images read these documents line by line, so no library may lay them out.

A text stands plain where every YAML reader takes it for that text, and is quoted otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_plain = re.compile(r"[a-z/][a-zA-Z0-9._/-]*").fullmatch
_address = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?:/[0-9]{1,2})?").fullmatch
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})


def scalar(text: str) -> str:
    """A text, quoted where it has to be."""
    plain = _address(text) or (_plain(text) and text.lower() not in _WORDS)
    return text if plain else quoted(text)


def quoted(text: str) -> str:
    """A text in double quotes. What is not printable ASCII is written by its number."""
    return '"' + "".join(map(_character, text)) + '"'


def _character(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if " " <= char <= "~":
        return char
    code = ord(char)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def flow_list(items: Iterable[str]) -> str:
    """A list on one line, of items that are YAML already."""
    return f"[{', '.join(items)}]"


def flow_map(items: Mapping[str, str]) -> str:
    """A mapping on one line, of values that are YAML already; the keys are ours and plain."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"
