"""Sums over what lies on the disk: of each row, and of the whole table.

A row's sum is the CRC-32 of all its columns, the revision among them, so a row that was changed or moved fails it; a
CRC finds every flipped bit and every burst of up to 32 for certain. The table's `Total` (how many rows, their sums
added up) lies beside it and is written with every batch, so a row that is gone is missed. It has a sum of its own.

The bytes summed are those on the disk, sealed values as they are: no key is needed to tell whether a store is whole.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

_NUMBERS = struct.Struct("<4q2?").pack


class Row(NamedTuple):
    """One change, as it is inserted and read back."""

    revision: int
    at: int
    bucket: str
    name: str
    created: int
    previous: int
    deleted: int
    value: bytes | None
    sum: int

    @property
    def key(self) -> str:
        """Whose row it is, for people."""
        return f"{self.bucket} {self.name} at revision {self.revision}"


class Total(NamedTuple):
    """What the table must add up to, with the floor that splits it and the id that ties it to its marker."""

    id: str
    floor: int
    rows: int
    recent: int  # of them above the floor
    added: int

    def sum(self) -> int:
        """Over all of it."""
        return crc32(f"{self.id}\0{self.floor}\0{self.rows}\0{self.recent}\0{self.added}".encode())

    def grown(self, came: Sequence[int]) -> Total:
        """After rows with these sums came."""
        count = len(came)
        return Total(self.id, self.floor, self.rows + count, self.recent + count, self.added + sum(came))

    def raised(self, floor: int, sunk: int, went: Sequence[int]) -> Total:
        """After the floor was raised over so many rows, and rows with these sums went."""
        return Total(self.id, floor, self.rows - len(went), self.recent - sunk, self.added - sum(went))


def row_sum(
    revision: int, at: int, bucket: str, name: str, created: int, previous: int, deleted: int, value: bytes | None
) -> int:
    """Of every column before it."""
    numbers = _NUMBERS(revision, at, created, previous, deleted, value is None)
    return crc32(value or b"", crc32(b"%b%b\0%b" % (numbers, bucket.encode(), name.encode())))


def is_sound(row: tuple[Any, ...]) -> bool:
    """Whether a row read from the disk is what was written. Damage can turn a column into any type."""
    revision, at, bucket, name, created, previous, deleted, value, found = row
    try:
        # As `row_sum`, which a start would call for every object there is.
        numbers = _NUMBERS(revision, at, created, previous, deleted, value is None)
        return crc32(value or b"", crc32(b"%b%b\0%b" % (numbers, bucket.encode(), name.encode()))) == found
    except (AttributeError, TypeError, struct.error):
        return False
