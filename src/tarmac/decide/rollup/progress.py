"""`Progressing` and the one-word summary, by the same rules on every level.

Progressing is False only when a person has to act. Its reason is then the precise one for lack of quota, places or
nodes; every failure of an instance itself becomes `Stalled`, with the precise reason in the message. A transient wait
is True until its patience has run out.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from tarmac.api.compute.workload import Counters
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
# The catalogue keeps all reasons about nodes in one band of priorities.
_NODES: Final = range(reasons.priority(reasons.INSUFFICIENT_CAPACITY), reasons.priority(reasons.STALLED))

_NAMED: Final = 20  # cities


def listed(cities: Sequence[str]) -> str:
    """Return the names of the cities, at most `_NAMED` of them: messages of conditions have a size limit."""
    more = f" and {len(cities) - _NAMED} more" if len(cities) > _NAMED else ""
    return f"{', '.join(cities[:_NAMED])}{more}"


def progressing(reason: str, message: str) -> Finding:
    """Return a finding that progress is made: NewRevision, Scaling or Complete."""
    return Finding("Progressing", "True", reason, message)


def blocked(blocker: Refusal, also: Sequence[str] = ()) -> Finding:
    """Return a finding that a person has to act. `also` are further cities with the same reason."""
    places = f"{blocker.where}: " if blocker.where else ""
    elsewhere = f" Also in {listed(also)}." if also else ""
    known = _stable_reason(blocker.reason)
    precise = f"{blocker.reason}: " if known == reasons.STALLED != blocker.reason else ""
    return Finding("Progressing", "False", known, f"{places}{precise}{blocker.message}{elsewhere}")


def readiness(progress: Finding) -> Finding:
    """Return `Ready`, for clients that wait for it on any kind.

    It is True when every wanted instance is ready and up to date.
    """
    complete = progress.holds and progress.reason == reasons.COMPLETE
    return Finding("Ready", "True" if complete else "False", progress.reason, progress.message)


def _stable_reason(reason: str) -> str:
    if reason in (reasons.QUOTA_EXHAUSTED, reasons.ROLLOUT_FAILED):
        return reason
    if reason in _PLACES:
        return reasons.NO_MATCHING_LOCATIONS
    return reason if reasons.priority(reason) in _NODES else reasons.STALLED


def worst(blockers: Iterable[Refusal]) -> Finding | None:
    """Return the most actionable blocker, with all cities that have it."""
    found = list(blockers)
    top = most_actionable(found)
    if top is None:
        return None
    same = {blocker.where for blocker in found if blocker.reason == top.reason and blocker.where} - {top.where}
    return blocked(top, sorted(same))


def summary(
    counted: Counters,
    progress: Finding,
    trouble: Refusal | None,
    *,
    paused: bool,
    deleting: bool,
    cities: str = "",
) -> Summary:
    """Return the summary of the object. `trouble` is the most actionable reason below it, if there is one."""
    complete = progress.holds and progress.reason == reasons.COMPLETE
    ready = counted.ready_replicas
    if deleting:
        word = "Deleting"
    elif paused:
        word = "Paused"
    elif not ready:
        word = "Stopped" if complete and counted.stopped_replicas else "Pending"
    elif trouble is not None:
        word = "Degraded"
    else:
        word = "Available" if complete else "Progressing"
    reason = trouble.reason if trouble else "" if complete else progress.reason
    return Summary(ready=f"{ready}/{counted.desired_replicas}", cities=cities, status=word, reason=reason)
