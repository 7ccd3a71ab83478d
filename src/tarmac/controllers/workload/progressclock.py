"""How long this process has seen a deployment without progress, or with an instance that cannot start.

A rollout fails after so many seconds of either. The times in status were written by other processes, whose clocks may
be wrong or may have been set since, and a failure takes a revision back for good. So only time that was also seen to
pass counts, by the clock that does not jump. A controller that starts anew begins to count anew.
"""

from __future__ import annotations

from typing import Any

from tarmac.api.compute.workload import WorkloadDeployment
from tarmac.base.clock import Clock
from tarmac.client.cache import Item
from tarmac.client.informer import Informer
from tarmac.decide.rollout.city import ObservedSeconds


class Stillness:
    """What each deployment said last, and since when."""

    def __init__(self, clock: Clock, deployments: Informer[Any]) -> None:
        self._clock = clock
        self._progress: dict[str, tuple[object, float]] = {}  # by uid
        self._failure: dict[str, tuple[object, float]] = {}
        deployments.on_change(self._changed)

    def seen(self, deployment: WorkloadDeployment) -> ObservedSeconds:
        """For how long it has been as it is."""
        uid, status = deployment.metadata.uid, deployment.status
        progress = (status.revision, status.last_progress_time) if status else None
        failure = status.start_failure.since if status and status.start_failure else None
        return ObservedSeconds(self._since(self._progress, uid, progress), self._since(self._failure, uid, failure))

    def _since(self, known: dict[str, tuple[object, float]], uid: str, what: object) -> float:
        now = self._clock.monotonic()
        before = known.get(uid)
        if before is None or before[0] != what:
            known[uid] = before = (what, now)
        return now - before[1]

    def _changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        if new is None and old is not None:
            self._progress.pop(old.metadata.uid, None)
            self._failure.pop(old.metadata.uid, None)
