"""Events of an Instance: its node, and its failures."""

from __future__ import annotations

from tarmac.api.compute.instance import Instance, InstanceStatus
from tarmac.api.compute.names import API_VERSION
from tarmac.api.conditions import find
from tarmac.client.eventrecorder import InvolvedObject, Recorder
from tarmac.decide import reasons
from tarmac.decide.rollup.conditions import is_blocking


def announce(recorder: Recorder, instance: Instance, new: InstanceStatus) -> None:
    """Record events for the differences between the Instance's status and the new one.

    Call it after the new one is written.
    """
    old = instance.status or InstanceStatus()
    if new.node_name and new.node_name != old.node_name:
        place = instance.spec.location.name if instance.spec.location else ""
        recorder.event(reference(instance), "Normal", reasons.SCHEDULED, f"Assigned to {new.node_name} at {place}")
    failure = _failure(new)
    if failure and failure.partition(":")[0] != _failure(old).partition(":")[0]:
        recorder.event(reference(instance), "Warning", reasons.FAILED, failure)


def reference(instance: Instance) -> InvolvedObject:
    """Return the reference that the events are about."""
    own = instance.metadata
    return InvolvedObject(API_VERSION, "Instance", own.name, own.namespace, own.uid)


def _failure(status: InstanceStatus) -> str:
    """Return the reason why it is not ready, if it concerns the Instance itself.

    Missing resources and quota are reported at the Workload.
    """
    ready = find(status.conditions, "Ready")
    if ready is None or ready.status == "True" or not is_blocking(ready.reason):
        return ""
    own = reasons.priority(ready.reason) >= reasons.priority(reasons.FAILED)
    return f"{ready.reason}: {ready.message}" if own else ""
