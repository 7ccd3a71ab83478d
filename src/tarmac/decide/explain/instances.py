"""Explains why an instance is not ready: first its gates, then its pod."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from tarmac.api.compute.explanations import Explanation, ExplanationLine, Subject
from tarmac.api.compute.instance import Instance
from tarmac.api.compute.names import API_VERSION, GATE_QUOTA, LABEL_CITY_CODE
from tarmac.api.conditions import find
from tarmac.api.networking.location import is_simulated
from tarmac.api.shared import Condition
from tarmac.decide import reasons
from tarmac.decide.explain.allotments import given_lines
from tarmac.decide.explain.answer import explanation, refusal_line, yes
from tarmac.decide.explain.budgets import drain_lines
from tarmac.decide.explain.machineobstacles import RULE as MACHINE_RULE
from tarmac.decide.explain.pods import pod_lines
from tarmac.decide.machineimages import images_of
from tarmac.decide.powerstate import STOPPED_TEXT, is_stopped
from tarmac.decide.snapshot.cachedreads import CachedReads
from tarmac.decide.snapshot.snapshot import INSTANCES, LOCAL_MACHINE_IMAGES, LOCATIONS, MACHINE_IMAGES, PODS, Snapshot
from tarmac.decide.verdict import Refusal


def explain_instance(snapshot: Snapshot, key: str) -> Explanation | None:
    """Return the explanation of an Instance; None when it does not exist."""
    instance = INSTANCES.get(snapshot, key)
    if instance is None:
        return None
    own = instance.metadata
    ready = find(instance.status and instance.status.conditions, "Ready")
    if own.deletion_timestamp is not None:
        state = "is being deleted"
    elif ready is not None and ready.status == "True":
        state = "is ready"
    elif is_stopped(instance.spec):
        state = "is stopped"
    else:
        state = "is not ready"
    subject = Subject(API_VERSION, "Instance", own.namespace, own.name)
    return explanation(subject, state, instance_lines(CachedReads(snapshot), instance))


def instance_lines(reads: CachedReads, instance: Instance) -> list[ExplanationLine]:
    """Return the lines about an Instance: the obstacles to its readiness, or its Ready condition."""
    own, city = instance.metadata, instance.metadata.labels.get(LABEL_CITY_CODE, "")
    ready = find(instance.status and instance.status.conditions, "Ready")
    if own.deletion_timestamp is not None:
        return [refusal_line(Refusal(reasons.TERMINATING, "It is being deleted.", rule="deletion"), city)]
    pod = PODS.get(reads.snapshot, f"{own.namespace}/{own.name}")
    if ready is not None and ready.status == "True":
        node = instance.status.node_name if instance.status else ""
        beside = [*given_lines(reads.snapshot, pod, city), *drain_lines(reads.snapshot, pod, city)] if pod else []
        return [yes(ready.reason, ready.message, "ready", city, node), *beside]
    gates = [gate.name for gate in instance.spec.controller.scheduling_gates] if instance.spec.controller else []
    if gates:
        return list(_gated(reads, instance, gates, city))
    if is_stopped(instance.spec):
        return [_stopped(instance, city, going=pod is not None)]
    if pod is None:
        place = LOCATIONS.get(reads.snapshot, instance.spec.location.name) if instance.spec.location else None
        images = images_of(
            instance.spec,
            lambda name: MACHINE_IMAGES.get(reads.snapshot, name),
            lambda name: LOCAL_MACHINE_IMAGES.get(reads.snapshot, f"{own.namespace}/{name}"),
            simulated=is_simulated(place),
        )
        return [refusal_line(images.refusals[0], city) if images.value is None else _condition_line(ready, city)]
    lines = pod_lines(reads, pod)
    if ready is not None and ready.reason == reasons.SOURCE_NOT_FOUND and all(line.answer != "No" for line in lines):
        return _without_source(lines, ready, city)
    return lines if any(line.answer != "Yes" for line in lines) else [*lines, _condition_line(ready, city)]


def _stopped(instance: Instance, city: str, *, going: bool) -> ExplanationLine:
    own, reason = instance.metadata, reasons.STOPPING if going else reasons.STOPPED
    message = "The machine is shutting down." if going else STOPPED_TEXT
    start = "" if going else f"Run `tarmac machine start -n {own.namespace} {own.name}`."
    return refusal_line(Refusal(reason, message, rule=MACHINE_RULE, change=start), city)


def _without_source(lines: Iterable[ExplanationLine], ready: Condition, city: str) -> list[ExplanationLine]:
    """Replace all but the positive lines by the Instance's condition.

    A pod with a missing volume source only reports that it is being created; the Instance's controller knows the cause.
    """
    well = [line for line in lines if line.answer == "Yes"]
    return [*well, refusal_line(Refusal(ready.reason, ready.message, rule="sources"), city)]


def _gated(reads: CachedReads, instance: Instance, gates: Iterable[str], city: str) -> Iterator[ExplanationLine]:
    """Yield a line for each gate with the reason why it is closed."""
    ready = find(instance.status and instance.status.conditions, "Ready")
    for gate in gates:
        refusal = _over_quota(reads, instance) if gate == GATE_QUOTA else _refused(ready)
        waits = Refusal(reasons.SCHEDULING_GATES_PRESENT, f"The gate {gate} is about to be lifted.")
        yield refusal_line(replace(refusal or waits, rule=gate.lower()), city)


def _over_quota(reads: CachedReads, instance: Instance) -> Refusal | None:
    ledger = reads.ledger(instance.metadata.namespace)
    return ledger.admit().refused.get(instance.metadata.name) if ledger else None


def _refused(ready: Condition | None) -> Refusal | None:
    """Return the last reason of the Instance's controller, unless it only says that gates are present."""
    if ready is None or ready.status == "True" or ready.reason == reasons.SCHEDULING_GATES_PRESENT:
        return None
    return Refusal(ready.reason, ready.message)


def _condition_line(ready: Condition | None, city: str) -> ExplanationLine:
    """Return a line with the last reason of the Instance's controller."""
    refusal = _refused(ready) or Refusal(reasons.PENDING, "No controller has processed it yet.")
    return refusal_line(replace(refusal, rule="ready"), city)
