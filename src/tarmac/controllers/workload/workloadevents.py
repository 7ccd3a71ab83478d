"""Events of a Workload, derived from the difference between two statuses."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from tarmac.api.compute.names import API_VERSION, LABEL_MOVED_FROM
from tarmac.api.compute.workload import RevisionRecord, Workload, WorkloadDeployment, WorkloadStatus
from tarmac.client.eventrecorder import EventType, InvolvedObject, Recorder
from tarmac.decide import reasons
from tarmac.decide.derived.deployments import Child
from tarmac.decide.derived.goal import WorkloadGoal

_WARNINGS: Final = (reasons.NOT_ANNOUNCED, reasons.QUOTA_EXHAUSTED, reasons.NETWORK_RANGES_OVERLAP)
"""Reasons that cause a warning event when a Workload first has them."""


class WorkloadEvent(NamedTuple):
    """One event."""

    type: EventType
    reason: str
    message: str


def announce(recorder: Recorder, workload: Workload, old: WorkloadStatus | None, new: WorkloadStatus) -> None:
    """Record the events between two statuses. Call it after the new one is written, so that each is recorded once."""
    if workload.metadata.deletion_timestamp is None:  # while it is being deleted, there is nothing to report
        for event in events_between(old or WorkloadStatus(), new):
            recorder.event(reference(workload), event.type, event.reason, event.message)


def reference(workload: Workload) -> InvolvedObject:
    """Return the reference that the events are about."""
    own = workload.metadata
    return InvolvedObject(API_VERSION, "Workload", own.name, own.namespace, own.uid)


def announce_move(recorder: Recorder, workload: Workload, made: Child) -> None:
    """Record an event if a new deployment replaces a lost city."""
    if made.moved_from:
        message = f"{made.moved_from} is lost; its instances start in {made.city}"
        recorder.event(reference(workload), "Warning", reasons.CITY_MOVED, message)


def announce_return(recorder: Recorder, workload: Workload, gone: WorkloadDeployment, goal: WorkloadGoal) -> None:
    """Record an event if a deployment is removed because the city that it replaced is back."""
    lost, placement = gone.metadata.labels.get(LABEL_MOVED_FROM), gone.spec.placement_name
    meant = lost in goal.cities.get(placement, ())
    if lost is not None and meant and all(block.where != lost for block in goal.blocks[placement]):
        message = f"{lost} has its instances back from {gone.spec.city_code}"
        recorder.event(reference(workload), "Normal", reasons.CITY_RETURNED, message)


def events_between(old: WorkloadStatus, new: WorkloadStatus) -> Iterator[WorkloadEvent]:
    """Yield the events between two statuses. The scheduler reports cities without a Location itself."""
    if old.desired_replicas != new.desired_replicas:
        message = f"Scaled from {old.desired_replicas} to {new.desired_replicas} replicas"
        yield WorkloadEvent("Normal", reasons.SCALED, message)
    if old.revision and old.revision != new.revision:
        yield WorkloadEvent("Normal", reasons.ROLLOUT_STARTED, f"Revision {new.revision} is to replace {old.revision}")
    if new.revisions and _is_replacing(new.revisions[-1]) and new.revisions[-1].number not in _completed(old):
        yield WorkloadEvent("Normal", reasons.ROLLOUT_COMPLETE, f"Every instance is of revision {new.revision}")
    for reason in _WARNINGS:
        message = _message_of(new, reason)
        if message and not _message_of(old, reason):
            yield WorkloadEvent("Warning", reason, message)


def _is_replacing(newest: RevisionRecord) -> bool:
    """Return True if the revision is complete and was not the first."""
    return newest.completed is not None and newest.number > 1


def _completed(status: WorkloadStatus) -> set[int]:
    return {each.number for each in status.revisions if each.completed is not None}


def _message_of(status: WorkloadStatus, reason: str) -> str:
    """Return the message of the condition with this reason, anywhere in the status."""
    conditions = [*status.conditions, *(each for placement in status.placements for each in placement.conditions)]
    return next((each.message for each in conditions if each.reason == reason), "")
