"""The priority that a pod would get, by the name of its class."""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.kubernetes.priorityclasses import NO_CLASS, PREEMPTS, SYSTEM, default_class
from tarmac.decide.snapshot.snapshot import PRIORITY_CLASSES, Snapshot


class Rank(NamedTuple):
    """How important a pod is, and whether others end for it."""

    value: int
    preempts: bool


def rank_of(snapshot: Snapshot, name: str) -> Rank:
    """The rank that a class gives; that of the default class when none is named."""
    if name:
        found = PRIORITY_CLASSES.get(snapshot, name) or SYSTEM.get(name) or NO_CLASS
    else:
        found = default_class(PRIORITY_CLASSES.all(snapshot)) or NO_CLASS
    return Rank(found.get("value", 0), found.get("preemptionPolicy", PREEMPTS) == PREEMPTS)
