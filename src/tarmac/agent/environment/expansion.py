"""Expands `$(NAME)` in values, commands and arguments; `$$` stands for one dollar sign.

A reference to an unknown name stays as written.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_REFERENCE = re.compile(r"\$(?:\$|\(([^)]*)\))")


def expand(text: str, *known: Mapping[str, str]) -> str:
    """Return the text with references replaced from the first mapping that has them."""
    if "$" not in text:
        return text

    def value(match: re.Match[str]) -> str:
        name = match[1]
        if name is None:
            return "$"
        return next((names[name] for names in known if name in names), match[0])

    return _REFERENCE.sub(value, text)
