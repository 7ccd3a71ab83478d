"""`Progressing` and the one-word summary, by the same rules on every level.

Progressing is False only when somebody has to act. It then says the same as everything else where it is quota, places
or nodes that are lacking; all that an instance itself can be ill with is `Stalled` here, and the message has the
precise reason. What merely takes its time is True, until its patience is over.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tarmac.api.shared import Summary
from tarmac.decide import reasons
from tarmac.decide.rollup.conditions import Finding, most_actionable
from tarmac.decide.verdict import Refusal

_PLACES: Final = frozenset(
    {
        reasons.NO_MATCHING_LOCATIONS,
        reasons.NO_CANDIDATE_LOCATIONS,
        reasons.NO_LOCATIONS,
        reasons.LOCATION_NOT_FOUND,
    }
)
# The catalogue keeps everything about nodes in one band of priorities.
_NODES: Final = range(reasons.priority(reasons.INSUFFICIENT_CAPACITY), reasons.priority(reasons.STALLED))


def progressing(reason: str, message: str) -> Finding:
    """On its way: NewRevision, Scaling or Complete."""
    return Finding("Progressing", "True", reason, message)


def blocked(blocker: Refusal, also: Sequence[str] = ()) -> Finding:
    """Not without somebody who acts. `also` are further cities with the same reason."""
    places = f"{blocker.where}: " if blocker.where else ""
    elsewhere = f" Also in {', '.join(also)}." if also else ""
    known = _stable_reason(blocker.reason)
    precise = f"{blocker.reason}: " if known == reasons.STALLED != blocker.reason else ""
    return Finding("Progressing", "False", known, f"{places}{precise}{blocker.message}{elsewhere}")


def readiness(progress: Finding) -> Finding:
    """`Ready`, for those who wait for that word on any kind: true when everything wanted is there and up to date."""
    complete = progress.holds and progress.reason == reasons.COMPLETE
    return Finding("Ready", "True" if complete else "False", progress.reason, progress.message)


def _stable_reason(reason: str) -> str:
    if reason in (reasons.QUOTA_EXHAUSTED, reasons.ROLLOUT_FAILED):
        return reason
    if reason in _PLACES:
        return reasons.NO_MATCHING_LOCATIONS
    return reason if reasons.priority(reason) in _NODES else reasons.STALLED


def worst(blockers: Iterable[Refusal]) -> Finding | None:
    """The most actionable blocker, with all the cities that have it."""
    found = list(blockers)
    top = most_actionable(found)
    if top is None:
        return None
    same = {blocker.where for blocker in found if blocker.reason == top.reason and blocker.where} - {top.where}
    return blocked(top, sorted(same))


def summary(
    ready: int,
    desired: int,
    progress: Finding,
    trouble: Refusal | None,
    *,
    paused: bool,
    deleting: bool,
    cities: str = "",
) -> Summary:
    """The object in a few words. `trouble` is the most actionable reason below, if there is one."""
    complete = progress.holds and progress.reason == reasons.COMPLETE
    if deleting:
        word = "Deleting"
    elif paused:
        word = "Paused"
    elif not ready:
        word = "Pending"
    elif trouble is not None:
        word = "Degraded"
    else:
        word = "Available" if complete else "Progressing"
    reason = trouble.reason if trouble else "" if complete else progress.reason
    return Summary(ready=f"{ready}/{desired}", cities=cities, status=word, reason=reason)
