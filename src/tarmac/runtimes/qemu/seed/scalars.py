"""YAML values with a fixed layout. Small images parse these documents line by line, so no library may lay them out.

A text is plain where every YAML parser reads it as that text, and quoted otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_plain = re.compile(r"[a-z/][a-zA-Z0-9._/-]*").fullmatch
_address = re.compile(r"(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?:/[0-9]{1,2})?").fullmatch
_WORDS = frozenset({"true", "false", "yes", "no", "on", "off", "y", "n", "null"})


def scalar(text: str) -> str:
    """Return a text as a scalar, quoted if necessary."""
    plain = _address(text) or (_plain(text) and text.lower() not in _WORDS)
    return text if plain else quoted(text)


def quoted(text: str) -> str:
    """Return a text in double quotes. Characters beyond printable ASCII are escaped."""
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
    """Return a list on one line, of items that are YAML already."""
    return f"[{', '.join(items)}]"


def flow_map(items: Mapping[str, str]) -> str:
    """Return a mapping on one line, of values that are YAML already; the keys must be plain."""
    return "{" + ", ".join(f"{key}: {value}" for key, value in items.items()) + "}"
