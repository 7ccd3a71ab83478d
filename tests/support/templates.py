"""Fields of templates, whose type and validation many kinds share: tests of every field try them once."""

from __future__ import annotations

from collections.abc import Sequence

_TRIED = {"deployments", "workloads"}
_DEEPEST = 4  # of `template` itself, in a CronJob


def is_repeated(plural: str, path: Sequence[str | int]) -> bool:
    """Return true for a field of a template, except those of Deployments (of Pods) and of Workloads (of Instances)."""
    return "template" in path[:_DEEPEST] and plural not in _TRIED
