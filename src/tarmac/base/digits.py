"""Parses whole numbers in untrusted text.

Python refuses to parse numbers of more than 4,300 digits, with the same exception as for a malformed one, but only
after `isdigit` has accepted it. This module checks the length first, so both cases give the same result.
"""

from __future__ import annotations


def whole_number(text: str, most: int) -> int | None:
    """Return a number from 0 to `most` in ASCII digits; None for everything else."""
    if not (text.isascii() and text.isdigit()):
        return None
    significant = text.lstrip("0") or "0"
    if len(significant) > len(str(most)):
        return None
    number = int(significant)
    return number if number <= most else None


def port_number(text: str) -> int | None:
    """Return a TCP port, 1 to 65535; None for everything else."""
    return whole_number(text, 65535) or None
