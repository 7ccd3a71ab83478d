"""Explains why a pod is on its node, or on none."""

from __future__ import annotations

import msgspec

from tarmac.api.compute.explanations import Explanation, Line, Subject
from tarmac.api.compute.names import LABEL_CITY_CODE
from tarmac.api.conditions import is_true
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.base.duration import format_duration
from tarmac.decide import reasons
from tarmac.decide.explain.allotments import given_lines
from tarmac.decide.explain.answer import explanation, found, told, yes
from tarmac.decide.explain.budgets import drain_lines
from tarmac.decide.explain.evictiontime import outlook
from tarmac.decide.explain.machines import of_machine
from tarmac.decide.explain.podowners import owner_lines
from tarmac.decide.explain.podsources import missing_sources
from tarmac.decide.rollup.pods import InstancePod, PodView
from tarmac.decide.scheduling import Pod, named
from tarmac.decide.snapshot.cachedreads import CachedReads
from tarmac.decide.snapshot.candidates import CandidateNodes
from tarmac.decide.snapshot.places import city_of
from tarmac.decide.snapshot.snapshot import NODES, PODS, Snapshot
from tarmac.decide.verdict import Refusal

_BEING_MADE = (reasons.PROGRAMMING_IN_PROGRESS, reasons.STARTING)


def explain_pod(snapshot: Snapshot, key: str) -> Explanation | None:
    """Return the explanation of a pod; None when it does not exist."""
    pod = PODS.get(snapshot, key)
    if pod is None:
        return None
    subject = Subject("v1", "Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
    lines = [*pod_lines(CachedReads(snapshot), pod), *owner_lines(snapshot, pod)]
    return explanation(subject, _state(pod), lines)


def pod_lines(reads: CachedReads, pod: JsonObject) -> list[Line]:
    """Return the verdicts of rules and nodes about a pod."""
    location = (pod["spec"].get("nodeSelector") or {}).get(LABEL_LOCATION, "")
    city = (pod["metadata"].get("labels") or {}).get(LABEL_CITY_CODE) or city_of(reads.snapshot, location)
    node = pod["spec"].get("nodeName", "")
    if node:
        return _on_node(reads, pod, city, node)
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    if gates:
        message = f"Scheduling gates present: {', '.join(gates)}"
        return [told(Refusal(reasons.SCHEDULING_GATES_PRESENT, message, rule="gates"), city)]
    return _without_node(pod, city, reads.candidates(location))


def _on_node(reads: CachedReads, pod: JsonObject, city: str, node: str) -> list[Line]:
    view = PodView.of(msgspec.convert(pod, InstancePod))
    if pod["metadata"].get("deletionTimestamp"):
        return [told(Refusal(reasons.TERMINATING, "It is being deleted.", rule="deletion"), city, node)]
    steps = (view.programmed, view.running, view.ready)
    reached = next((count for count, step in enumerate(steps, 1) if not step.holds), len(steps))
    lines = [found(step, city, node) for step in steps[:reached]]
    if lines[-1].reason == reasons.NODE_LOST:
        message = outlook(node, NODES.get(reads.snapshot, node), pod, reads.snapshot.now)
        lines[-1] = msgspec.structs.replace(lines[-1], message=message)
    elif lines[-1].reason in _BEING_MADE and (missing := missing_sources(reads.snapshot, pod)) is not None:
        lines[-1] = told(missing, city, node)
    elif lines[-1].reason in (reasons.CLASS_UNAVAILABLE, reasons.CLASS_EXHAUSTED):
        lines[-1] = msgspec.structs.replace(lines[-1], rule="classes")
    lines[-1] = of_machine(pod, lines[-1])
    given = given_lines(reads.snapshot, pod, city) if view.running.holds else []
    return [*lines, *given, *drain_lines(reads.snapshot, pod, city)]


def _without_node(pod: JsonObject, city: str, candidates: CandidateNodes) -> list[Line]:
    read = candidates.read(pod)
    if read.value is None:
        return [told(refusal, city) for refusal in read.refusals]
    refusals = candidates.refusals(read.value)
    if not refusals:
        choice = candidates.scheduler.choose(read.value)
        return [yes(reasons.SCHEDULED, f"{choice.value} takes it; the scheduler is about to say so", "nodes", city)]
    first, *others = refusals
    lines = [told(first, city), *(told(other, city, other.where) for other in others)]
    return [*lines, *_preempting(pod, read.value, city, candidates)]


def _preempting(obj: JsonObject, pod: Pod, city: str, candidates: CandidateNodes) -> list[Line]:
    """Return a line about the pods that are, or would be, preempted for this pod."""
    if obj["spec"].get("preemptionPolicy") == "Never":
        return []
    nominated = (obj.get("status") or {}).get("nominatedNodeName")
    if nominated:
        message = _waiting(pod, nominated, candidates)
        return [told(Refusal(reasons.PREEMPTING, message, rule="preemption"), city, nominated)]
    found = candidates.preempted_for(pod)
    if found is None or not found.victims:
        return []
    broken = f", and violate disruption budgets {found.violations} times" if found.violations else ""
    names = named(found.victims, pod.namespace)
    message = f"Less important pods would end on {found.node} to make room: {names}{broken}."
    return [told(Refusal(reasons.PREEMPTING, message, rule="preemption"), city, found.node)]


def _waiting(pod: Pod, node: str, candidates: CandidateNodes) -> str:
    """Describe the terminating pods that a nominated pod waits for."""
    going = candidates.going(pod, node)
    if not going.pods:
        return f"It is to have the place of a less important pod on {node}."
    left = format_duration(max(0, round(going.until - candidates.now)))
    names = named(going.pods, pod.namespace)
    return f"Less important pods end on {node} and it gets their room: {names}; their time is over in {left}."


def _state(pod: JsonObject) -> str:
    node = pod["spec"].get("nodeName")
    if not node:
        return "has no node"
    if is_true(pod, "Ready"):
        return f"is ready on {node}"
    return f"is on {node} and is not ready"
