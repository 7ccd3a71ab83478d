"""One city's part of a rollout, read from its WorkloadDeployment."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from tarmac.api.compute.workload import StartFailure, WorkloadDeployment, WorkloadDeploymentStatus
from tarmac.api.conditions import find
from tarmac.api.shared import Condition
from tarmac.base.clock import parse_rfc3339
from tarmac.decide.rollout.template import template_hash


class ObservedSeconds(NamedTuple):
    """How long this controller process has observed an unchanged state, on its monotonic clock.

    Guards against timestamps written by hosts with wrong clocks. `still`: no progress; `failing`: the same start
    failure; `stable`: complete, and no instance has restarted.
    """

    still: float = inf
    failing: float = inf
    stable: float = inf


_UNWATCHED = ObservedSeconds()


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveCity:
    """A deployment as the waves see it. `revision` is the hash of its template, empty when it is yet to be made.

    `complete` and the fields after it are about that revision; a deployment that has not observed its newest
    specification says nothing yet. `stable` is for how many seconds it has been complete without a restart, `still`
    for how many nothing has moved there, `failing` for how many the start failure has been there.
    """

    name: str
    city: str
    revision: str = ""
    complete: bool = False
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
    """The view of a deployment, or of one that does not exist yet.

    Times in status are of clocks that may be wrong or may have been set since; what was not also seen does not count.
    """
    if deployment is None:
        return WaveCity(name=name, city=city, lost=lost)
    status, revision = deployment.status, revision_of(deployment)
    going = deployment.metadata.deletion_timestamp is not None  # by hand: it comes back, and is away until then
    if status is None or going or not has_observed(deployment, status):
        return WaveCity(name=name, city=city, revision=revision, lost=lost)
    ready, progress = find(status.conditions, "Ready"), find(status.conditions, "Progressing")
    # An instance that exits again and again is Ready in between: the start failure outlasts these moments.
    complete = ready is not None and ready.status == "True" and status.start_failure is None
    return WaveCity(
        name=name,
        city=city,
        revision=revision,
        complete=complete,
        stable=_stable(ready, now, seen) if ready and complete else 0,
        still=min(now - _moment(status.last_progress_time, now), seen.still),
        start_failure=status.start_failure,
        failing=min(now - _moment(status.start_failure and status.start_failure.since, now), seen.failing),
        trouble=status.summary.reason if status.summary else "",
        detail=progress.message if progress else "",
        lost=lost,
    )


def revision_of(deployment: WorkloadDeployment) -> str:
    """The hash of its template, as its controller has worked it out already, if it has."""
    status = deployment.status
    if status is not None and status.revision and has_observed(deployment, status):
        return status.revision
    return template_hash(deployment.spec.template)


def has_observed(deployment: WorkloadDeployment, status: WorkloadDeploymentStatus) -> bool:
    """Whether the status is about the specification as it is."""
    return status.observed_generation >= deployment.metadata.generation


def _stable(ready: Condition, now: float, seen: ObservedSeconds) -> float:
    """Seconds for which it has been complete: observed ones alone, where this process observes."""
    return seen.stable if seen.stable < inf else now - _moment(ready.last_transition_time, now)


def _moment(time: str | None, now: float) -> float:
    return now if time is None else parse_rfc3339(time)
