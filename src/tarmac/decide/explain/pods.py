"""Explains why a pod is on its node, or on none."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from tarmac.api.compute.explanations import Explanation, ExplanationLine, Subject
from tarmac.api.compute.names import LABEL_CITY_CODE
from tarmac.api.conditions import is_true
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.api.schema import JsonObject
from tarmac.base.clock import parse_rfc3339
from tarmac.base.duration import format_duration
from tarmac.decide import reasons
from tarmac.decide.derived.requiredsources import CONFIG_MAP, SECRET, ObjectSource, sources_missing
from tarmac.decide.explain.allotments import given_lines
from tarmac.decide.explain.answer import explanation, finding_line, refusal_line, yes
from tarmac.decide.explain.budgets import drain_lines
from tarmac.decide.explain.machineobstacles import of_machine
from tarmac.decide.explain.podowners import owner_lines
from tarmac.decide.nodes import NO_EXECUTE, TaintToleration, stays
from tarmac.decide.rollup.podprogress import InstancePod, PodProgress
from tarmac.decide.scheduling import Pod, named
from tarmac.decide.snapshot.cachedreads import CachedReads
from tarmac.decide.snapshot.candidates import CandidateNodes
from tarmac.decide.snapshot.places import city_of
from tarmac.decide.snapshot.snapshot import CLAIMS, CONFIG_MAPS, NODES, PODS, SECRETS, Snapshot
from tarmac.decide.verdict import Refusal

_BEING_MADE = (reasons.PROGRAMMING_IN_PROGRESS, reasons.STARTING)

_CLAIM = "PersistentVolumeClaim"
_RESOURCES = {CONFIG_MAP: CONFIG_MAPS.resource, SECRET: SECRETS.resource, _CLAIM: CLAIMS.resource}


def explain_pod(snapshot: Snapshot, key: str) -> Explanation | None:
    """Return the explanation of a pod; None when it does not exist."""
    pod = PODS.get(snapshot, key)
    if pod is None:
        return None
    subject = Subject("v1", "Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
    lines = [*pod_lines(CachedReads(snapshot), pod), *owner_lines(snapshot, pod)]
    return explanation(subject, _state(pod), lines)


def pod_lines(reads: CachedReads, pod: JsonObject) -> list[ExplanationLine]:
    """Return the verdicts of rules and nodes about a pod."""
    location = (pod["spec"].get("nodeSelector") or {}).get(LABEL_LOCATION, "")
    city = (pod["metadata"].get("labels") or {}).get(LABEL_CITY_CODE) or city_of(reads.snapshot, location)
    node = pod["spec"].get("nodeName", "")
    if node:
        return _on_node(reads, pod, city, node)
    gates = [gate["name"] for gate in pod["spec"].get("schedulingGates") or ()]
    if gates:
        message = f"Scheduling gates present: {', '.join(gates)}"
        return [refusal_line(Refusal(reasons.SCHEDULING_GATES_PRESENT, message, rule="gates"), city)]
    return _without_node(pod, city, reads.candidates(location))


def _on_node(reads: CachedReads, pod: JsonObject, city: str, node: str) -> list[ExplanationLine]:
    view = PodProgress.of(msgspec.convert(pod, InstancePod))
    if pod["metadata"].get("deletionTimestamp"):
        return [refusal_line(Refusal(reasons.TERMINATING, "It is being deleted.", rule="deletion"), city, node)]
    steps = (view.programmed, view.running, view.ready)
    reached = next((count for count, step in enumerate(steps, 1) if not step.holds), len(steps))
    lines = [finding_line(step, city, node) for step in steps[:reached]]
    if lines[-1].reason == reasons.NODE_LOST:
        message = outlook(node, NODES.get(reads.snapshot, node), pod, reads.snapshot.now)
        lines[-1] = msgspec.structs.replace(lines[-1], message=message)
    elif lines[-1].reason in _BEING_MADE and (missing := missing_sources(reads.snapshot, pod)) is not None:
        lines[-1] = refusal_line(missing, city, node)
    elif lines[-1].reason in (reasons.CLASS_UNAVAILABLE, reasons.CLASS_EXHAUSTED):
        lines[-1] = msgspec.structs.replace(lines[-1], rule="classes")
    lines[-1] = of_machine(pod, lines[-1])
    given = given_lines(reads.snapshot, pod, city) if view.running.holds else []
    return [*lines, *given, *drain_lines(reads.snapshot, pod, city)]


def _without_node(pod: JsonObject, city: str, candidates: CandidateNodes) -> list[ExplanationLine]:
    read = candidates.read(pod)
    if read.value is None:
        return [refusal_line(refusal, city) for refusal in read.refusals]
    refusals = candidates.refusals(read.value)
    if not refusals:
        choice = candidates.scheduler.choose(read.value)
        return [yes(reasons.SCHEDULED, f"{choice.value} takes it; the scheduler is about to say so", "nodes", city)]
    first, *others = refusals
    lines = [refusal_line(first, city), *(refusal_line(other, city, other.where) for other in others)]
    return [*lines, *_preempting(pod, read.value, city, candidates)]


def _preempting(obj: JsonObject, pod: Pod, city: str, candidates: CandidateNodes) -> list[ExplanationLine]:
    """Return a line about the pods that are, or would be, preempted for this pod."""
    if obj["spec"].get("preemptionPolicy") == "Never":
        return []
    nominated = (obj.get("status") or {}).get("nominatedNodeName")
    if nominated:
        message = _waiting(pod, nominated, candidates)
        return [refusal_line(Refusal(reasons.PREEMPTING, message, rule="preemption"), city, nominated)]
    found = candidates.preempted_for(pod)
    if found is None or not found.victims:
        return []
    broken = f", and violate disruption budgets {found.violations} times" if found.violations else ""
    names = named(found.victims, pod.namespace)
    message = f"Less important pods would end on {found.node} to make room: {names}{broken}."
    return [refusal_line(Refusal(reasons.PREEMPTING, message, rule="preemption"), city, found.node)]


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


def outlook(node: str, known: JsonObject | None, pod: JsonObject, now: float) -> str:
    """Return a sentence about the future of a pod on a node that no longer reports."""
    if known is None:
        return f"Node {node} does not exist any more."
    taints = [taint for taint in known["spec"].get("taints") or () if taint["effect"] == NO_EXECUTE]
    if not taints:
        return f"Node {node} is not ready, and has not been given up."
    patience = stays(_tolerances(pod), [(taint["key"], taint.get("value", "")) for taint in taints])
    if patience is None:
        return f"Node {node} is not ready, and the pod tolerates that for ever."
    since = max(parse_rfc3339(taint["timeAdded"]) if taint.get("timeAdded") else now for taint in taints)
    left = max(0, round(since + patience - now))
    return f"Node {node} is not ready; the pod is replaced in {format_duration(left)} unless it comes back."


def _tolerances(pod: JsonObject) -> list[TaintToleration]:
    return [_tolerance(item) for item in pod["spec"].get("tolerations") or ()]


def _tolerance(item: Mapping[str, Any]) -> TaintToleration:
    exists, seconds = item.get("operator") == "Exists", item.get("tolerationSeconds")
    return TaintToleration(item.get("key", ""), exists, item.get("value", ""), item.get("effect", ""), seconds)


# Finds missing sources of a pod: ConfigMaps, Secrets and claims that are not optional.
#
# A pod with a missing volume source only reports that it is being created; its node reports the cause by events, which
# expire.


def missing_sources(snapshot: Snapshot, pod: JsonObject) -> Refusal | None:
    """Return a refusal that names all missing sources; None when none is missing, as far as the snapshot can tell."""
    namespace = pod["metadata"]["namespace"]
    needed = (each for each in dict.fromkeys(_sources(pod["spec"])) if snapshot.holds(_RESOURCES[each.kind]))
    missing = [each for each in needed if snapshot.get(_RESOURCES[each.kind], f"{namespace}/{each.name}") is None]
    return sources_missing(missing) if missing else None


def _sources(spec: JsonObject) -> Iterator[ObjectSource]:
    for volume in spec.get("volumes") or ():
        yield from _mounted(volume)
        if claim := volume.get("persistentVolumeClaim"):
            yield ObjectSource(_CLAIM, claim["claimName"])
        for source in (volume.get("projected") or {}).get("sources") or ():
            yield from _mounted(source)
    for field in ("initContainers", "containers"):
        for container in spec.get(field) or ():
            yield from _environment(container)


def _mounted(volume: JsonObject) -> Iterator[ObjectSource]:
    """Yield the sources of a volume, or of one source of a projected volume: there a Secret's name is in `name`."""
    yield from _required(CONFIG_MAP, volume.get("configMap"))
    yield from _required(SECRET, volume.get("secret"), "name", "secretName")


def _environment(container: JsonObject) -> Iterator[ObjectSource]:
    for source in container.get("envFrom") or ():
        yield from _required(CONFIG_MAP, source.get("configMapRef"))
        yield from _required(SECRET, source.get("secretRef"))
    for variable in container.get("env") or ():
        source = variable.get("valueFrom") or {}
        yield from _required(CONFIG_MAP, source.get("configMapKeyRef"))
        yield from _required(SECRET, source.get("secretKeyRef"))


def _required(kind: str, reference: JsonObject | None, *fields: str) -> Iterator[ObjectSource]:
    if reference and not reference.get("optional"):
        name = next((reference[field] for field in fields or ("name",) if reference.get(field)), "")
        if name:
            yield ObjectSource(kind, name)
