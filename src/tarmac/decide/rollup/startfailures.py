"""Instances of the newest template that say that they cannot start.

A rollout that meets one has failed when it goes on saying so. It is kept in the deployment's status with the moment at
which it was first said, because an Instance's own condition only tells since when it is not ready.
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
CRASH_LOOP: Final = 3  # restarts after which a crash is no accident


def start_failure(
    instances: Iterable[InstanceView], newest: str, known: StartFailure | None, now: float
) -> StartFailure | None:
    """The first instance that cannot start, since the moment at which one of the newest template first said so."""
    failing = [each for each in instances if each.template_hash == newest and not each.deleting and _cannot_start(each)]
    if not failing:
        return None
    first = min(failing, key=lambda each: each.ordinal)
    same = known is not None and any(known.instance == each.name for each in failing)
    since = known.since if known is not None and same else Time(rfc3339(now))
    return StartFailure(first.name, first.reason, first.message, since)


def _cannot_start(instance: InstanceView) -> bool:
    if instance.ready:
        return False
    crash_loop = instance.reason in _CRASHED and instance.restarts >= CRASH_LOOP
    return crash_loop or instance.reason in _REFUSED
