"""Names that were mistyped: which known one is meant."""

from __future__ import annotations

from collections.abc import Iterable

FEW = 2  # letters by which a typo differs


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that this is a typo of, if it looks like one."""
    return next((each for each in known if distance(name.lower(), each.lower()) <= FEW), None)


def distance(one: str, other: str) -> int:
    """How many letters have to be added, left out or changed to make the one the other; more than few is any number."""
    if abs(len(one) - len(other)) > FEW:
        return FEW + 1
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        before, row = row, [i]
        for j, wanted in enumerate(other, 1):
            row.append(min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted)))
    return row[-1]
