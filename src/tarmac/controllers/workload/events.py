"""What a person following a Workload wants to be told, from the difference between two of its states."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from tarmac.api.compute.names import API_VERSION
from tarmac.api.compute.workload import Workload, WorkloadStatus
from tarmac.client.events import EventType, Recorder, Reference
from tarmac.controllers.conditions import find
from tarmac.decide import reasons

_TOLD = (reasons.QUOTA_EXHAUSTED, reasons.NO_CANDIDATE_LOCATIONS)


class Told(NamedTuple):
    """One event."""

    type: EventType
    reason: str
    message: str


def announce(recorder: Recorder, workload: Workload, old: WorkloadStatus | None, new: WorkloadStatus) -> None:
    """Record what has happened between two states. Call it when the new one is written, so that it is said once."""
    own = workload.metadata
    about = Reference(API_VERSION, "Workload", own.name, own.namespace, own.uid)
    for told in happened(old or WorkloadStatus(), new):
        recorder.event(about, told.type, told.reason, told.message)


def happened(old: WorkloadStatus, new: WorkloadStatus) -> Iterator[Told]:
    """The events between two states."""
    if old.desired_replicas != new.desired_replicas:
        message = f"Scaled from {old.desired_replicas} to {new.desired_replicas} replicas"
        yield Told("Normal", reasons.SCALED, message)
    if old.revision and old.revision != new.revision:
        yield Told("Normal", reasons.ROLLOUT_STARTED, f"Revision {new.revision} begins to replace {old.revision}")
    if _progress(old) == reasons.NEW_REVISION and _progress(new) == reasons.COMPLETE:
        yield Told("Normal", reasons.ROLLOUT_COMPLETE, f"Every instance is of revision {new.revision}")
    before, after = dict(_complaints(old)), dict(_complaints(new))
    for reason, message in after.items():
        if reason not in before:
            yield Told("Warning", reason, message)


def _progress(status: WorkloadStatus) -> str:
    found = find(status.conditions, "Progressing")
    return found.reason if found else ""


def _complaints(status: WorkloadStatus) -> Iterator[tuple[str, str]]:
    """Reasons worth an event, wherever in the status they show."""
    conditions = [*status.conditions, *(each for placement in status.placements for each in placement.conditions)]
    for condition in conditions:
        if condition.reason in _TOLD:
            yield condition.reason, condition.message
    reason = status.summary.reason if status.summary else ""
    if reason in _TOLD:
        yield reason, reasons.CATALOGUE[reason].text
