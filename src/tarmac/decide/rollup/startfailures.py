"""Instances of the newest template that cannot start, or exit again and again.

A rollout that meets one fails when that lasts. It is kept in the deployment's status with the moment at which it was
first seen, because an Instance's own condition only tells since when it is not ready, and an instance that exits again
and again is ready in between.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tarmac.api.compute.workload import StartFailure
from tarmac.api.declare import Time
from tarmac.base.clock import rfc3339
from tarmac.decide import reasons
from tarmac.decide.instances import InstanceView

_REFUSED: Final = frozenset(
    {reasons.IMAGE_UNAVAILABLE, reasons.IMAGE_REFUSED, reasons.CONFIGURATION_ERROR, reasons.SOURCE_NOT_FOUND}
)
_CRASHED: Final = frozenset(
    {reasons.GUEST_PANICKED, reasons.MACHINE_FAILED, reasons.INSTANCE_CRASHING, reasons.OUT_OF_MEMORY}
)
REPEATED: Final = 2  # exits after which a crash is no accident
SETTLED: Final = 10.0  # seconds for which an instance must stay ready after repeated exits to count as started


def start_failure(
    instances: Iterable[InstanceView], newest: str, known: StartFailure | None, now: float
) -> StartFailure | None:
    """The first instance that cannot start, since the moment at which one of the newest template first said so."""
    failing = [each for each in instances if each.template_hash == newest and not each.deleting]
    failing = [each for each in failing if _cannot_start(each, now)]
    if not failing:
        return None
    first = min(failing, key=lambda each: each.ordinal)
    same = known is not None and any(known.instance == each.name for each in failing)
    since = known.since if known is not None and same else Time(rfc3339(now))
    if first.ready:
        message = f"it has exited {first.restarts} times and was started again a moment ago"
        return StartFailure(first.name, reasons.INSTANCE_CRASHING, message, since)
    return StartFailure(first.name, first.reason, first.message, since)


def settles_in(instance: InstanceView, now: float) -> float:
    """Seconds until a ready instance that has exited repeatedly counts as started; at most 0 for any other."""
    if not instance.ready or instance.restarts < REPEATED:
        return 0
    return SETTLED - (now - instance.ready_since)


def _cannot_start(instance: InstanceView, now: float) -> bool:
    if instance.ready:
        return settles_in(instance, now) > 0
    if instance.reason in _CRASHED:
        return instance.restarts + 1 >= REPEATED  # this exit, and those before it
    return instance.reason in _REFUSED
