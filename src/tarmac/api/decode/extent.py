"""How much a document holds, found out before anything is made of it.

What a document costs is decided less by its bytes than by its values: a megabyte of text in one string is nothing, a
megabyte of empty objects keeps everybody waiting for a second, in decoding, in validation and in who owns which field.
So documents are limited in values: members of objects, entries of lists, and the objects and lists themselves. Counting
brackets and commas is enough for that, and at the speed of memory; only where strings hold so many of them that the
answer could be wrong are strings left out first.
"""

from __future__ import annotations

from tarmac.api.status import TooLarge

MOST_VALUES = 20_000
MOST_KEYED = 8000  # entries of maps, and of lists whose entries are told apart: each has owners of its own
MOST_STORED_VALUES = 50_000  # with the managed fields, which name what is keyed once more for each owner
MOST_QUANTITIES = 2000  # each is parsed, normalised, compared and added up, with the name of what it is of
_MARKS = (b",", b"{", b"[")


def check_extent(text: bytes, most: int = MOST_VALUES) -> None:
    """Raise TooLarge unless a JSON text has at most so many values. It need not be well-formed."""
    if len(text) > most and count_values(text) > most:
        found = count_values(_without_strings(text, most))
        if found > most:
            raise too_many_values(found, most)


def too_many_values(found: int, most: int = MOST_VALUES) -> TooLarge:
    """The refusal of a document."""
    return TooLarge(f"Request entity too large: the document holds {found} values, limit is {most}")


def too_many_quantities() -> TooLarge:
    """The refusal of a document with more amounts of resources than anybody asks for."""
    return TooLarge(f"Request entity too large: the document holds too many quantities, limit is {MOST_QUANTITIES}")


def too_many_keyed() -> TooLarge:
    """The refusal of a document with more members of maps, and of lists with keys, than anybody can keep track of."""
    return TooLarge(f"Request entity too large: the document holds too many keyed entries, limit is {MOST_KEYED}")


def count_values(text: bytes) -> int:
    """How many values a JSON text has at most: what looks like one in a string counts."""
    return sum(text.count(mark) for mark in _MARKS)


def _without_strings(text: bytes, most: int) -> bytes:
    """The text between strings. So many strings that they alone are too many values count as that many commas."""
    if b"\\" in text:
        text = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    strings = text.count(b'"') // 2
    if strings > 2 * most:  # every second one may be a key
        return b"," * (strings // 2)
    return b"".join(text.split(b'"')[::2])
