"""Quorum of a replicated store: how many members may be lost, and which may be removed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

SAFE_COUNT: Final = 3
"""The smallest number of members of which one may be lost."""


def quorum(count: int) -> int:
    """Return the number of members that have to respond."""
    return count // 2 + 1


def spare(members: Mapping[str, bool]) -> int:
    """Return how many more members may be lost; below 0 the store takes no writes."""
    return sum(members.values()) - quorum(len(members))


def spare_text(members: Mapping[str, bool]) -> str:
    """Describe the members and the losses that they survive."""
    count = f"{len(members)} member{'' if len(members) == 1 else 's'}"
    if (left := spare(members)) <= 0:
        return f"{count}, and the loss of {'it' if len(members) == 1 else 'any of them'} stops writes"
    return f"{count}, of which {left} may be lost"


def removal_refusal(members: Mapping[str, bool], name: str) -> str:
    """Return the reason why this member must not be removed; empty if it may be. The others are voters."""
    others = {each: answers for each, answers in members.items() if each != name}
    if not others:
        return f"{name} is the only member, and has all the data"
    if spare(members) < 0:
        needed = quorum(len(members))
        return f"{sum(members.values())} of {len(members)} members respond, and a change needs {needed}"
    if spare(others) < 0:
        silent = ", ".join(sorted(each for each, answers in others.items() if not answers))
        return f"the quorum would be lost: of the others, {silent} does not respond; start or replace that one first"
    return ""


def quorum_problems(members: Mapping[str, bool]) -> list[str]:
    """Return the problems of the members, with the remedy for each."""
    left = spare(members)
    if left < 0:
        lost = ", ".join(sorted(each for each, answers in members.items() if not answers))
        return [f"etcd has no quorum, and the store takes no writes: {lost} must respond again"] if members else []
    more = "one more loss stops writes" if left == 0 else f"{left} more may be lost"
    found = [
        f"etcd member {name} does not respond, and {more}; if its host is lost: tarmac etcd replace {name}"
        for name, answers in sorted(members.items())
        if not answers
    ]
    if not found and len(members) == SAFE_COUNT - 1:
        found.append(f"etcd has {spare_text(members)}; add a third: tarmac token create --server")
    return found
