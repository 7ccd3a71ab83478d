"""Which endpoint is in which of a group's slices, so that as few slices as possible change when pods come and go.

An endpoint stays in the slice it is in. New ones fill slices that have room, the first first, then new slices. A slice
that has run empty goes, unless it is the only one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

LARGEST = 100


def shared_out(present: Mapping[int, Collection[str]], wanted: Collection[str]) -> dict[int, list[str]]:
    """Who is in the slice of each number, given who is now and who is to be."""
    left = dict.fromkeys(wanted)
    slices: dict[int, list[str]] = {}
    for number in sorted(present):
        kept = [each for each in present[number] if each in left][:LARGEST]
        slices[number] = kept
        for each in kept:
            del left[each]
    number = 0
    for each in left:
        while len(slices.setdefault(number, [])) >= LARGEST:
            number += 1
        slices[number].append(each)
    return {number: members for number, members in slices.items() if members} or {0: []}
