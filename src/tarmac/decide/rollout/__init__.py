"""Which instances of one city are made and removed next, so that their number and their template become what is wanted.

A template change deletes and makes anew, highest ordinal first; the ordinal keeps its name and its disks. Every step
is computed from what exists, never from what was planned before, so a newer revision supersedes a stuck one simply by
being the one that instances are compared with.

Invariants, whatever the world looks like:
- ordinals of what is kept or made are unique and below desired + maxSurge;
- a ready instance is taken away only while enough others are ready (maxUnavailable);
- an outdated instance that is not ready serves nobody and is replaced without waiting;
- while paused nothing happens.
"""

from __future__ import annotations

from tarmac.decide.rollout.bounds import RolloutLimits, desired_replicas, limits
from tarmac.decide.rollout.fleet import Goal
from tarmac.decide.rollout.history import KEPT_REVISIONS, Revision, complete, fallback, record, undo
from tarmac.decide.rollout.steps import Removal, RemovalCause, RolloutSteps, plan
from tarmac.decide.rollout.template import template_hash

__all__ = [
    "KEPT_REVISIONS",
    "Goal",
    "Removal",
    "RemovalCause",
    "Revision",
    "RolloutLimits",
    "RolloutSteps",
    "complete",
    "desired_replicas",
    "fallback",
    "limits",
    "plan",
    "record",
    "template_hash",
    "undo",
]
