"""Suggestions for mistyped names."""

from __future__ import annotations

from collections.abc import Iterable

MAX_DISTANCE = 2  # maximum edit distance of a typo


def closest_name(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that this is a typo of, if any."""
    return next((each for each in known if edit_distance(name.lower(), each.lower()) <= MAX_DISTANCE), None)


def edit_distance(one: str, other: str) -> int:
    """Return the edit distance of two words; above the maximum, any larger number."""
    if abs(len(one) - len(other)) > MAX_DISTANCE:
        return MAX_DISTANCE + 1
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, row = row, [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted)))
    return row[-1]
