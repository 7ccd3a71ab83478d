"""Whether a rollout can take its first steps: what it may not take away yet stands in the way of what it has to make.

Where a plan ends may well have room for everything, and the way there may not: instances that are ready stay until
enough others are (`maxUnavailable`), and hold their nodes until then. A rollout that waits for instances that wait for
that room waits for ever.
"""

from __future__ import annotations

from tarmac.api.shared import ResourceList
from tarmac.decide.plans.difference import Difference
from tarmac.decide.plans.room import remove, take_room
from tarmac.decide.snapshot.candidates import CandidateNodes
from tarmac.decide.snapshot.snapshot import Snapshot


def begin(snapshot: Snapshot, candidates: CandidateNodes, found: Difference, amounts: ResourceList) -> None:
    """Take away what a rollout takes away at once, and refuse what it then has to make and has no room for."""
    remove(snapshot, candidates, found, [view for view in found.going if not view.ready or view in found.delete])
    first = _first(found)
    if first and any(view.ready for view in found.replace):
        for pod, _ in take_room(snapshot, candidates, found, amounts, first):
            candidates.cluster.remove_pod(pod.uid)


def _first(found: Difference) -> list[int]:
    """Ordinals that must be ready before any instance that is ready may go."""
    ready = {view.ordinal for view in (*found.keep, *found.replace) if view.ready}
    spare = len(ready) - (found.goal.desired - found.goal.limits.max_unavailable)
    if spare > 0:
        return []
    missing = [ordinal for ordinal in range(found.goal.desired) if ordinal not in ready]
    if not missing:  # nothing may be missing, so one more comes first
        return [found.goal.desired]
    return missing if found.goal.ordered else missing[: 1 - spare]
