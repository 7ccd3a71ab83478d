"""One city's part of a rollout, read from its WorkloadDeployment."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from tarmac.api.compute.workload import StartFailure, WorkloadDeployment, WorkloadDeploymentStatus
from tarmac.api.conditions import find, holds
from tarmac.api.shared import Condition
from tarmac.base.clock import parse_rfc3339
from tarmac.decide.rollout.template import template_hash


class ObservedSeconds(NamedTuple):
    """Durations of unchanged states that this controller process has observed, on its monotonic clock.

    Guards against timestamps written by hosts with wrong clocks. `still`: no progress; `failing`: the same start
    failure; `stable`: complete, and no instance has restarted.
    """

    still: float = inf
    failing: float = inf
    stable: float = inf


_UNWATCHED = ObservedSeconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveCity:
    """A deployment's input to the waves.

    `revision` is the hash of its template, empty before the deployment is created. `complete` and the fields after it
    are about that revision, and are not set while the deployment has not observed its newest specification. `restarted`
    is True if one of its instances has restarted since it was created. `stable` is the number of seconds it has been
    complete without a restart, `still` the seconds without progress, `failing` the age of the start failure.
    """

    name: str
    city: str
    revision: str = ""
    complete: bool = False
    restarted: bool = False
    stable: float = 0
    still: float = 0
    start_failure: StartFailure | None = None
    failing: float = 0
    trouble: str = ""
    detail: str = ""
    lost: bool = False


def city_of(
    name: str,
    city: str,
    deployment: WorkloadDeployment | None,
    now: float,
    *,
    lost: bool,
    seen: ObservedSeconds = _UNWATCHED,
) -> WaveCity:
    """Return the view of a deployment, or of one that does not exist yet.

    Timestamps in status come from clocks that may be wrong or have been set since, so each duration is bounded by the
    time that this process has observed itself.
    """
    if deployment is None:
        return WaveCity(name=name, city=city, lost=lost)
    status, revision = deployment.status, revision_of(deployment)
    going = deployment.metadata.deletion_timestamp is not None  # by hand: it is recreated, and unavailable until then
    if status is None or going or not has_observed(deployment, status):
        return WaveCity(name=name, city=city, revision=revision, lost=lost)
    ready, progress = find(status.conditions, "Ready"), find(status.conditions, "Progressing")
    complete = is_complete(deployment)
    return WaveCity(
        name=name,
        city=city,
        revision=revision,
        complete=complete,
        restarted=status.restarts > 0,
        stable=_stable(ready, now, seen) if ready and complete else 0,
        still=min(now - _moment(status.last_progress_time, now), seen.still),
        start_failure=status.start_failure,
        failing=min(now - _moment(status.start_failure and status.start_failure.since, now), seen.failing),
        trouble=status.summary.reason if status.summary else "",
        detail=progress.message if progress else "",
        lost=lost,
    )


def is_complete(deployment: WorkloadDeployment) -> bool:
    """Return True if the deployment fulfils its newest specification and is not being deleted."""
    status = deployment.status
    if status is None or deployment.metadata.deletion_timestamp is not None or not has_observed(deployment, status):
        return False
    # A crash-looping instance is Ready between its restarts; the start failure outlasts these moments.
    return holds(status.conditions, "Ready") and status.start_failure is None


def revision_of(deployment: WorkloadDeployment) -> str:
    """Return the hash of the deployment's template: from its status when that is current, else computed."""
    status = deployment.status
    if status is not None and status.revision and has_observed(deployment, status):
        return status.revision
    return template_hash(deployment.spec.template)


def has_observed(deployment: WorkloadDeployment, status: WorkloadDeploymentStatus) -> bool:
    """Return True if the status describes the current generation of the specification."""
    return status.observed_generation >= deployment.metadata.generation


def _stable(ready: Condition, now: float, seen: ObservedSeconds) -> float:
    """Return the seconds for which the deployment has been complete.

    Where this process observes it, only observed time counts; else the timestamp of the Ready condition is used.
    """
    return seen.stable if seen.stable < inf else now - _moment(ready.last_transition_time, now)


def _moment(time: str | None, now: float) -> float:
    return now if time is None else parse_rfc3339(time)
