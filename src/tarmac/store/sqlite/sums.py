"""Checksums over the stored data: of each row, and of the whole table.

A row's sum is the CRC-32 of all its columns, the revision among them, so a row that was changed or moved fails it; a
CRC detects every flipped bit and every burst of up to 32 bits for certain. The table's `Total` (number of rows, the sum
of their sums) is stored beside it and written with every batch, so a deleted row is detected. It has its own sum.

The summed bytes are those on disk, sealed values included: verifying a store needs no key.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from typing import Any, NamedTuple
from zlib import crc32

_NUMBERS = struct.Struct("<4q2?").pack


class LogRow(NamedTuple):
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
        """The row's identity, for people."""
        return f"{self.bucket} {self.name} at revision {self.revision}"


class Total(NamedTuple):
    """The expected total of the table, with the floor that splits it and the id that ties it to its marker."""

    id: str
    floor: int
    rows: int
    recent: int  # rows above the floor
    added: int

    def sum(self) -> int:
        """The checksum over all fields."""
        return crc32(f"{self.id}\0{self.floor}\0{self.rows}\0{self.recent}\0{self.added}".encode())

    def grown(self, came: Sequence[int]) -> Total:
        """Return the total after adding rows with these sums."""
        count = len(came)
        return Total(self.id, self.floor, self.rows + count, self.recent + count, self.added + sum(came))

    def raised(self, floor: int, sunk: int, went: Sequence[int]) -> Total:
        """Return the total after raising the floor over `sunk` rows and deleting rows with these sums."""
        return Total(self.id, floor, self.rows - len(went), self.recent - sunk, self.added - sum(went))


def row_sum(
    revision: int, at: int, bucket: str, name: str, created: int, previous: int, deleted: int, value: bytes | None
) -> int:
    """Return the checksum over every column before `sum`."""
    numbers = _NUMBERS(revision, at, created, previous, deleted, value is None)
    return crc32(value or b"", crc32(b"%b%b\0%b" % (numbers, bucket.encode(), name.encode())))


def is_sound(row: tuple[Any, ...]) -> bool:
    """True if a row read from disk is as written. Damage can turn a column into any type."""
    revision, at, bucket, name, created, previous, deleted, value, found = row
    try:
        # As `row_sum`, inlined: start-up runs this for every object.
        numbers = _NUMBERS(revision, at, created, previous, deleted, value is None)
        return crc32(value or b"", crc32(b"%b%b\0%b" % (numbers, bucket.encode(), name.encode()))) == found
    except (AttributeError, TypeError, struct.error):
        return False
