"""The priority that a pod would get, by the name of its class."""

from __future__ import annotations

from typing import NamedTuple

from tarmac.api.kubernetes.priorityclasses import NO_CLASS, PREEMPTS, SYSTEM, default_class
from tarmac.decide.explain.world import PRIORITY_CLASSES, World


class Rank(NamedTuple):
    """How important a pod is, and whether others end for it."""

    value: int
    preempts: bool


def rank_of(world: World, name: str) -> Rank:
    """The rank that a class gives; that of the default class when none is named."""
    if name:
        found = PRIORITY_CLASSES.get(world, name) or SYSTEM.get(name) or NO_CLASS
    else:
        found = default_class(PRIORITY_CLASSES.all(world)) or NO_CLASS
    return Rank(found.get("value", 0), found.get("preemptionPolicy", PREEMPTS) == PREEMPTS)
