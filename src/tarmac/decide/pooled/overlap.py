"""Overlaps of the ranges of classes and pools: the younger one of two is not used."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from tarmac.api.egress.addressrules import bounds_of, written_as
from tarmac.api.egress.sourceip import AddressRange
from tarmac.decide import reasons
from tarmac.decide.verdict import Refusal


class RangeOwner(NamedTuple):
    """A class or pool. `age` sorts the oldest first; `title` is its name in messages."""

    age: tuple[str, str]
    title: str
    ranges: Sequence[AddressRange]


def overlapped_by_older(own: RangeOwner, others: Iterable[RangeOwner]) -> Refusal | None:
    """Return a refusal if an older class or pool has overlapping ranges."""
    mine = [(bounds_of(each), written_as(each)) for each in own.ranges]
    for other in others:
        if other.age < own.age:
            for bounds in map(bounds_of, other.ranges):
                written = next((text for known, text in mine if known.overlaps(bounds)), None)
                if written is not None:
                    message = f"{written} overlaps a range of {other.title}, which is older."
                    return Refusal(reasons.RANGE_OVERLAP, message, change="Take the range out of one of them.")
    return None
