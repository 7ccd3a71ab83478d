"""Limits on the number of values in a document, enforced before it is decoded.

The cost of a document depends less on its bytes than on its values: a megabyte of text in one string is cheap, a
megabyte of empty objects blocks the server for a second, in decoding, validation and field ownership. So documents are
limited in values: members of objects, entries of lists, and the objects and lists themselves. Counting brackets and
commas gives an upper bound at the speed of memory; strings are removed first only where that bound exceeds the limit.
"""

from __future__ import annotations

from tarmac.api.status import TooLarge

MAX_VALUES = 20_000
MAX_KEYED = 8000  # entries of maps and of lists with keys: field ownership is tracked for each
MAX_STORED_VALUES = 50_000  # including managed fields, which repeat each keyed entry for each owner
MAX_QUANTITIES = 2000  # each is parsed, normalised, compared and added up, under its resource name
_MARKS = (b",", b"{", b"[")


def check_extent(text: bytes, most: int = MAX_VALUES) -> None:
    """Raise TooLarge if a JSON text has more values than the limit. The text need not be well-formed."""
    if len(text) > most and count_values(text) > most:
        found = count_values(_without_strings(text, most))
        if found > most:
            raise too_many_values(found, most)


def too_many_values(found: int, most: int = MAX_VALUES) -> TooLarge:
    """Return the rejection of a document with too many values."""
    return TooLarge(f"Request entity too large: the document holds {found} values, limit is {most}")


def too_many_quantities() -> TooLarge:
    """Return the rejection of a document with too many amounts of resources."""
    return TooLarge(f"Request entity too large: the document holds too many quantities, limit is {MAX_QUANTITIES}")


def too_many_keyed() -> TooLarge:
    """Return the rejection of a document with too many entries of maps and of lists with keys."""
    return TooLarge(f"Request entity too large: the document holds too many keyed entries, limit is {MAX_KEYED}")


def count_values(text: bytes) -> int:
    """Return an upper bound of the values in a JSON text: marks inside strings count, too."""
    return sum(text.count(mark) for mark in _MARKS)


def _without_strings(text: bytes, most: int) -> bytes:
    """Return the text between strings.

    If the strings alone exceed the limit, return as many commas as they have values at least.
    """
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    strings = text.count(b'"') // 2
    if strings > 2 * most:  # every second one may be a key
        return b"," * (strings // 2)
    return b"".join(text.split(b'"')[::2])
