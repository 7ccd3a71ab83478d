"""Computes how many pods of a PodDisruptionBudget may be evicted now, as Kubernetes does.

A pod is healthy when it is ready, is not being deleted and was not evicted a moment ago. An eviction records its pod in
the budget (`status.disruptedPods`) before the deletion is visible, and the record counts until the deletion is seen or
two minutes have passed without it. A record holds a name, and an Instance's next pod has the name of the last: a pod
created after the record is not the evicted one. The number of allowed disruptions is the number of healthy pods beyond
the desired one.

The desired number is absolute, or a percentage of the expected number of pods. For a percentage, and for
`maxUnavailable`, the expected number is the sum of the scales of the pods' owners; pods without a scalable owner then
count for nothing. Percentages round up.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec

from tarmac.api.conditions import replaced, stated, truth
from tarmac.api.partial import partial_pod
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339, rfc3339

DELETION_TIMEOUT: Final = 120.0  # an eviction without a deletion by then is dropped
SAME_SECOND: Final = 5.0  # lifetime of a record as old as its pod, which may be the evicted pod's successor
DISRUPTION_ALLOWED: Final = "DisruptionAllowed"


class PodHealth(NamedTuple):
    """The health of a pod that a budget selects."""

    name: str
    ready: bool
    deleting: bool = False
    created: str = ""


def read_health(raw: bytes | msgspec.Raw) -> PodHealth:
    """Return the health of an encoded Pod."""
    pod = partial_pod(raw)
    ready, own = pod.status.ready, pod.metadata
    return PodHealth(own.name, ready, own.deletion_timestamp is not None, own.creation_timestamp or "")


@dataclass(frozen=True, slots=True)
class BudgetCensus:
    """The current status of a budget.

    `overdue` are pods with an eviction that was never followed by a deletion; `recheck` is the time at which the next
    recorded eviction becomes overdue.
    """

    status: JsonObject
    overdue: tuple[str, ...] = ()
    recheck: float | None = None


@dataclass(slots=True)
class _Noted:
    """Evictions without a visible deletion yet."""

    kept: dict[str, str] = field(default_factory=dict[str, str])
    overdue: list[str] = field(default_factory=list[str])
    recheck: float | None = None


def wants_scale(spec: JsonObject) -> bool:
    """Return True if a budget depends on the scales of the pods' owners."""
    return spec.get("maxUnavailable") is not None or isinstance(spec.get("minAvailable"), str)


def status_of(budget: JsonObject, pods: Iterable[PodHealth], scales: Mapping[str, int], now: float) -> BudgetCensus:
    """Return the status of a budget over these pods. `scales` holds the scale of each of their owners, if needed."""
    spec, old = budget["spec"], budget.get("status") or {}
    pods = list(pods)
    expected = sum(scales.values()) if wants_scale(spec) else len(pods) if "minAvailable" in spec else 0
    desired = _desired(spec, expected)
    noted = _noted(old.get("disruptedPods") or {}, pods, now)
    healthy = sum(each.ready and not each.deleting and each.name not in noted.kept for each in pods)
    # Without expected pods nothing is allowed: the first pods may exist before their budget has observed them.
    allowed = max(0, healthy - desired) if expected > 0 else 0
    generation = budget["metadata"].get("generation", 0)
    status: JsonObject = {
        "currentHealthy": healthy,
        "desiredHealthy": desired,
        "disruptionsAllowed": allowed,
        "expectedPods": expected,
        "observedGeneration": generation,
        "conditions": _conditions(old, allowed > 0, "SufficientPods" if allowed else "InsufficientPods", "", now),
    }
    status["conditions"][-1]["observedGeneration"] = generation
    if noted.kept:
        status["disruptedPods"] = noted.kept
    return BudgetCensus(status, tuple(noted.overdue), noted.recheck)


def failed_status(budget: JsonObject, why: str, now: float) -> JsonObject:
    """Return the status of a budget that cannot be computed: nothing is allowed until it can be."""
    old = budget.get("status") or {}
    conditions = _conditions(old, False, "SyncFailed", why, now)
    conditions[-1]["observedGeneration"] = old.get("observedGeneration", 0)
    return {**old, "disruptionsAllowed": 0, "conditions": conditions}


def _desired(spec: JsonObject, expected: int) -> int:
    most_away = spec.get("maxUnavailable")
    if most_away is not None:
        return max(0, expected - _resolved(most_away, expected))
    return _resolved(spec.get("minAvailable") or 0, expected)


def _resolved(amount: int | str, total: int) -> int:
    return amount if isinstance(amount, int) else -(-int(amount.removesuffix("%")) * total // 100)


def _noted(disrupted: Mapping[str, str], pods: Iterable[PodHealth], now: float) -> _Noted:
    found = _Noted()
    for pod in pods:
        since = disrupted.get(pod.name)
        if since is None or pod.deleting:
            continue
        age = parse_rfc3339(since) - parse_rfc3339(pod.created) if pod.created else DELETION_TIMEOUT
        until = parse_rfc3339(since) + (DELETION_TIMEOUT if age > 0 else SAME_SECOND)
        if until <= now:
            found.overdue += [pod.name] if age > 0 else []
        elif age >= 0:
            found.kept[pod.name] = since
            found.recheck = until if found.recheck is None else min(found.recheck, until)
    return found


def _conditions(old: JsonObject, allowed: bool, reason: str, message: str, now: float) -> list[JsonObject]:
    """Return the conditions with DisruptionAllowed as the last. Its time changes only when its status flips."""
    known: list[JsonObject] = old.get("conditions") or []
    status, before = truth(allowed), stated(known, DISRUPTION_ALLOWED)
    since = before["lastTransitionTime"] if before.get("status") == status else rfc3339(now)
    made = {"type": DISRUPTION_ALLOWED, "status": status, "reason": reason, "message": message}
    return replaced(known, {**made, "lastTransitionTime": since})
