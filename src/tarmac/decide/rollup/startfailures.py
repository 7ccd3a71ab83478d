"""Instances of the newest template that cannot start or exit repeatedly.

A rollout fails when a start failure lasts. The failure is stored in the deployment's status with the time when it was
first seen: an Instance's own condition only has the time since it is not ready, and a crash-looping instance is ready
in between. One exit is forgiven. After more, the instance counts as started once it has been ready for the observation
window of its Workload.
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
REPEATED: Final = 2  # exits after which a crash is not an accident
MIN_WINDOW: Final = 10.0  # seconds; a shorter window would not see that an instance is ready only between its exits


def start_failure(
    instances: Iterable[InstanceView], newest: str, known: StartFailure | None, now: float, window: float
) -> StartFailure | None:
    """Return the failure of the first instance that cannot start.

    `since` is kept while the instance of the known failure still fails. `window` is the `minReadySeconds` of the
    rollout.
    """
    failing = [each for each in instances if each.template_hash == newest and not each.deleting]
    failing = [each for each in failing if _cannot_start(each, now, window)]
    if not failing:
        return None
    first = min(failing, key=lambda each: each.ordinal)
    same = known is not None and any(known.instance == each.name for each in failing)
    since = known.since if known is not None and same else Time(rfc3339(now))
    if first.ready:
        message = f"it has exited {first.restarts} times and was started again a moment ago"
        return StartFailure(first.name, reasons.INSTANCE_CRASHING, message, since)
    return StartFailure(first.name, first.reason, first.message, since)


def settles_in(instance: InstanceView, now: float, window: float) -> float:
    """Return the seconds until a ready instance with repeated exits counts as started; at most 0 for any other one."""
    if not instance.ready or instance.restarts < REPEATED:
        return 0
    return max(window, MIN_WINDOW) - (now - instance.ready_since)


def _cannot_start(instance: InstanceView, now: float, window: float) -> bool:
    if instance.ready:
        return settles_in(instance, now, window) > 0
    if instance.reason in _CRASHED:
        return instance.restarts + 1 >= REPEATED  # this exit and the earlier ones
    return instance.reason in _REFUSED
