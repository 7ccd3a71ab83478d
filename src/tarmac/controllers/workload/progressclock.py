"""Measures how long this process has observed a deployment without progress, with a start failure, or complete.

A rollout fails after a timeout of the first two, and continues after a period of the third. The times in the status
were written by other processes, whose clocks may be wrong or may have been set since, and a failure permanently rolls a
revision back. So only time observed by this process counts, on its monotonic clock. A restarted controller counts from
zero.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.compute.workload import WorkloadDeployment, WorkloadDeploymentStatus
from tarmac.api.conditions import find
from tarmac.base.clock import Clock
from tarmac.client.cache import Item
from tarmac.client.informer import Informer
from tarmac.decide.rollout.city import ObservedSeconds


class ProgressTimer:
    """The last state of each deployment, and since when it has been observed."""

    def __init__(self, clock: Clock, deployments: Informer[Any]) -> None:
        self._clock = clock
        self._progress: dict[str, tuple[object, float]] = {}  # by uid
        self._failure: dict[str, tuple[object, float]] = {}
        self._stable: dict[str, tuple[object, float]] = {}
        deployments.on_change(self._changed)

    def observed(self, deployment: WorkloadDeployment) -> ObservedSeconds:
        """Return the seconds for which the deployment's present state has been observed."""
        uid, status = deployment.metadata.uid, deployment.status
        progress = (status.revision, status.last_progress_time) if status else None
        failure = status.start_failure.since if status and status.start_failure else None
        # A restart resets the observation, even if Ready stayed True.
        stable = (status.revision, status.restarts, _ready(status)) if status else None
        return ObservedSeconds(
            self._since(self._progress, uid, progress),
            self._since(self._failure, uid, failure),
            self._since(self._stable, uid, stable),
        )

    def _since(self, known: dict[str, tuple[object, float]], uid: str, what: object) -> float:
        now = self._clock.monotonic()
        before = known.get(uid)
        # Any change starts again, also one back to an earlier state: a flapping deployment is not stable.
        if before is None or before[0] != what:
            known[uid] = before = (what, now)
        return now - before[1]

    def _changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is not None:
            # A pass may come much later, and time before it would not count.
            self.observed(new.object)  # at the change itself, not at the next pass
        elif old is not None:
            self._progress.pop(old.metadata.uid, None)
            self._failure.pop(old.metadata.uid, None)
            self._stable.pop(old.metadata.uid, None)


def _ready(status: WorkloadDeploymentStatus) -> tuple[str, str | None]:
    found = find(status.conditions, "Ready")
    return (found.status, found.last_transition_time) if found is not None else ("Unknown", None)
