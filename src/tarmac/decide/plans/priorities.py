"""The priority that a pod would get from the name of its class."""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.kubernetes.priorityclasses import NO_CLASS, PREEMPTS, SYSTEM, default_class
from tarmac.decide.snapshot.snapshot import PRIORITY_CLASSES, Snapshot


class Rank(NamedTuple):
    """The priority of a pod, and its right to preempt other pods."""

    value: int
    preempts: bool


def rank_of(snapshot: Snapshot, name: str) -> Rank:
    """Return the rank of a class; that of the default class when none is named."""
    if name:
        found = PRIORITY_CLASSES.get(snapshot, name) or SYSTEM.get(name) or NO_CLASS
    else:
        found = default_class(PRIORITY_CLASSES.all(snapshot)) or NO_CLASS
    return Rank(found.get("value", 0), found.get("preemptionPolicy", PREEMPTS) == PREEMPTS)
