"""Whole numbers in text that somebody else wrote.

Python refuses to read numbers of more than 4,300 digits, with the same exception as for no number at all, but only
after `isdigit` has said that it is one. Here the length is looked at first, so there is one answer for all of them.
"""

from __future__ import annotations


def whole(text: str, most: int) -> int | None:
    """A number from 0 to `most` in ASCII digits; None for everything else."""
    if not (text.isascii() and text.isdigit()):
        return None
    significant = text.lstrip("0") or "0"
    if len(significant) > len(str(most)):
        return None
    number = int(significant)
    return number if number <= most else None


def port_number(text: str) -> int | None:
    """A TCP port, 1 to 65535; None for everything else."""
    return whole(text, 65535) or None
