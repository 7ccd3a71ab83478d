"""Checks that a rollout can take its first steps beside the instances that it may not delete yet.

The final state of a plan may have room for everything while the way there does not: ready instances stay until enough
other instances are ready (`maxUnavailable`), and hold their nodes until then. If the new instances need that room, the
rollout deadlocks.
"""

from __future__ import annotations

from tarmac.api.shared import ResourceList
from tarmac.decide.plans.difference import Difference
from tarmac.decide.plans.room import remove, take_room
from tarmac.decide.snapshot.candidates import CandidateNodes
from tarmac.decide.snapshot.snapshot import Snapshot


def begin(snapshot: Snapshot, candidates: CandidateNodes, found: Difference, amounts: ResourceList) -> None:
    """Remove the instances that a rollout deletes at once, and refuse those it must then create without room."""
    remove(snapshot, candidates, found, [view for view in found.going if not view.ready or view in found.delete])
    first = _first(found)
    if first and any(view.ready for view in found.replace):
        for pod, _ in take_room(snapshot, candidates, found, amounts, first):
            candidates.cluster.remove_pod(pod.uid)


def _first(found: Difference) -> list[int]:
    """Return the ordinals that must be ready before any ready instance may be deleted."""
    ready = {view.ordinal for view in (*found.keep, *found.replace) if view.ready}
    spare = len(ready) - (found.goal.desired - found.goal.limits.max_unavailable)
    if spare > 0:
        return []
    missing = [ordinal for ordinal in range(found.goal.desired) if ordinal not in ready]
    if not missing:  # no instance may be missing, so an extra one comes first
        return [found.goal.desired]
    return missing if found.goal.ordered else missing[: 1 - spare]
