"""Distributes a group's endpoints over slices so that few slices change when pods come and go.

An endpoint stays in its slice. New endpoints fill slices with room, the lowest number first, then new slices. An empty
slice is removed, unless it is the only one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

MAX_SHARE = 100


def shared_out(present: Mapping[int, Collection[str]], wanted: Collection[str]) -> dict[int, list[str]]:
    """Return the endpoints of each slice by number, given the present and the wanted ones."""
    left = dict.fromkeys(wanted)
    slices: dict[int, list[str]] = {}
    for number in sorted(present):
        kept = [each for each in present[number] if each in left][:MAX_SHARE]
        slices[number] = kept
        for each in kept:
            del left[each]
    number = 0
    for each in left:
        while len(slices.setdefault(number, [])) >= MAX_SHARE:
            number += 1
        slices[number].append(each)
    return {number: members for number, members in slices.items() if members} or {0: []}
