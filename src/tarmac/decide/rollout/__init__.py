"""Computes the next instances to create and delete in one city, toward the wanted number and template.

A template change deletes and recreates instances, highest ordinal first; the ordinal keeps its name and its disks.
Every step is computed from the existing instances, never from an earlier plan, so a newer revision supersedes a stuck
one simply by being the one that instances are compared with.

Invariants, for every possible state of the city:
- ordinals of instances that are kept or created are unique and below desired + maxSurge;
- a ready instance is deleted only while enough other instances are ready (maxUnavailable);
- an outdated instance that is not ready serves no traffic and is replaced without waiting;
- while paused, nothing is created or deleted.
"""

from __future__ import annotations

from tarmac.decide.rollout.fleet import CityGoal, RolloutLimits, desired_replicas, limits
from tarmac.decide.rollout.history import KEPT_REVISIONS, Revision, complete, fallback, record, undo
from tarmac.decide.rollout.steps import Removal, RemovalCause, RolloutSteps, plan
from tarmac.decide.rollout.template import template_hash

__all__ = [
    "KEPT_REVISIONS",
    "CityGoal",
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
