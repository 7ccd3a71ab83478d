"""Checks that nodes have room for planned Instances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from tarmac.api.compute.instance import Instance
from tarmac.api.kubernetes.runtimeclasses import overhead_of
from tarmac.api.schema import JsonObject
from tarmac.api.shared import LocationReference, ResourceList
from tarmac.decide import reasons
from tarmac.decide.derived.containershares import instance_amounts
from tarmac.decide.derived.instances import instance_document
from tarmac.decide.derived.pods import pod_of
from tarmac.decide.instances import InstanceView
from tarmac.decide.plans.difference import Difference, planned_uid
from tarmac.decide.plans.priorities import Rank, rank_of
from tarmac.decide.remedies.rightsizing import either, places_to_free, room_to_make, size_that_fits
from tarmac.decide.remedies.usualchanges import usual_change
from tarmac.decide.scheduling import Demand, Pod
from tarmac.decide.snapshot.candidates import CandidateNodes
from tarmac.decide.snapshot.snapshot import CLAIMS, INSTANCE_TYPES, PODS, RUNTIME_CLASSES, Snapshot
from tarmac.decide.verdict import Refusal, Verdict

Placed = tuple[Pod, str]
"""A Pod and its node."""


def amounts_of(snapshot: Snapshot, found: Difference) -> ResourceList | None:
    """Return the resources of one Instance; None, with a recorded refusal, when its instance type does not exist."""
    runtime = found.deployment.spec.template.spec.runtime
    amounts = instance_amounts(runtime, lambda name: INSTANCE_TYPES.get(snapshot, name))
    if amounts is None:
        written = runtime.resources.instance_type
        message = f"Instance type {written} does not exist."
        change = usual_change(reasons.INSTANCE_TYPE_NOT_FOUND)
        found.refuse(Refusal(reasons.INSTANCE_TYPE_NOT_FOUND, message, change=change))
    return amounts


def unplaced(snapshot: Snapshot, found: Difference) -> list[int]:
    """Return the ordinals of kept Instances that wait for a node."""
    namespace = found.deployment.metadata.namespace
    waiting = [view for view in found.keep if not view.ready and not found.would_stand_still(view)]
    pods = ((view.ordinal, PODS.get(snapshot, f"{namespace}/{view.name}")) for view in waiting)
    return [ordinal for ordinal, pod in pods if pod is None or not pod["spec"].get("nodeName")]


def remove(snapshot: Snapshot, candidates: CandidateNodes, found: Difference, views: Iterable[InstanceView]) -> None:
    """Remove the Pods of Instances from their nodes."""
    namespace = found.deployment.metadata.namespace
    for view in views:
        pod = PODS.get(snapshot, f"{namespace}/{view.name}")
        if pod is not None:
            candidates.cluster.remove_pod(pod["metadata"]["uid"])


def take_room(
    snapshot: Snapshot, candidates: CandidateNodes, found: Difference, amounts: ResourceList, ordinals: Iterable[int]
) -> list[Placed]:
    """Place the planned Instances on nodes, and return their nodes.

    Instances that fit nowhere, even with preemption, are refused.
    """
    refusals: list[Refusal] = []
    placed: list[Placed] = []
    if found.stopped:  # a stopped machine occupies no node
        return placed
    rank = rank_of(snapshot, found.deployment.spec.template.spec.priority_class_name)
    lacking: list[Pod] = []
    for turn, read in enumerate(_pods(snapshot, candidates, found, amounts, rank, ordinals)):
        choice = _node_for(candidates, found, read.value, turn, rank) if read.value is not None else None
        if read.value is not None and choice is not None and choice.value is not None:
            candidates.cluster.add_pod(read.value, choice.value)
            placed.append((read.value, choice.value))
        else:
            refusals.append((choice or read).refusals[0])
            lacking += [read.value] if read.value is not None else []
    if refusals:
        change = _change(candidates, found, lacking[0].demand, placed, refusals) if lacking else refusals[0].change
        found.refuse(replace(refusals[0], change=change), len(refusals))
    return placed


def _node_for(candidates: CandidateNodes, found: Difference, pod: Pod, turn: int, rank: Rank) -> Verdict[str]:
    """Return a node that takes the pod, after preemption there if necessary."""
    choice = candidates.scheduler.choose(pod, turn)
    candidate = candidates.preempted_for(pod) if choice.value is None and rank.preempts else None
    if candidate is None:
        return choice
    found.end(candidate)
    candidates.end(candidate)
    return Verdict(candidate.node)


def _change(
    candidates: CandidateNodes,
    found: Difference,
    demand: Demand,
    placed: Sequence[Placed],
    refusals: Sequence[Refusal],
) -> str:
    """Return a change that makes room for all of them, if they lack room."""
    cluster, location = candidates.cluster, found.location
    if refusals[0].reason == reasons.CLASS_EXHAUSTED and len(refusals) > 1:
        return places_to_free(cluster, location, demand, len(refusals)) or refusals[0].change
    if refusals[0].reason != reasons.INSUFFICIENT_CAPACITY:
        return refusals[0].change
    room = room_to_make(cluster, location, demand, len(refusals))
    for pod, _ in placed:  # not created yet, so they would be as small too
        cluster.remove_pod(pod.uid)
    smaller = size_that_fits(cluster, location, demand, len(refusals) + len(placed))
    for pod, node in placed:
        cluster.add_pod(pod, node)
    return either(smaller, room)


def _pods(
    snapshot: Snapshot,
    candidates: CandidateNodes,
    found: Difference,
    amounts: ResourceList,
    rank: Rank,
    ordinals: Iterable[int],
) -> Iterator[Verdict[Pod]]:
    """Yield the Pods at these ordinals. Without disks they are equal for scheduling, so only the first is read."""
    alike = all(volume.disk is None for volume in found.deployment.spec.template.spec.volumes)
    location = LocationReference(found.location)
    read: Verdict[Pod] = Verdict(None)
    for ordinal in ordinals:
        if read.value is None or not alike:
            instance = instance_document(found.deployment, location, ordinal, found.goal.template_hash, (), {})
            read = candidates.read(_pod(snapshot, instance, amounts, rank))
        uid = planned_uid(found.deployment, ordinal)
        yield Verdict(replace(read.value, uid=uid)) if read.value is not None else read


def planned_pod(snapshot: Snapshot, instance: Instance, amounts: ResourceList) -> JsonObject:
    """Return an Instance's Pod, with the overhead that admission would add."""
    pod = pod_of(instance, amounts)
    overhead = overhead_of(RUNTIME_CLASSES.get(snapshot, pod["spec"]["runtimeClassName"]), amounts.get("memory"))
    if overhead:
        pod["spec"]["overhead"] = overhead
    return pod


def _pod(snapshot: Snapshot, instance: Instance, amounts: ResourceList, rank: Rank) -> JsonObject:
    """Return the Instance's Pod, without disks that do not exist yet: those are created where the Pod is placed."""
    pod = planned_pod(snapshot, instance, amounts)
    pod["metadata"]["uid"] = ""
    pod["spec"]["priority"] = rank.value
    pod["spec"]["volumes"] = [volume for volume in pod["spec"]["volumes"] if not _is_new(snapshot, instance, volume)]
    return pod


def _is_new(snapshot: Snapshot, instance: Instance, volume: JsonObject) -> bool:
    claim = volume.get("persistentVolumeClaim")
    if claim is None:
        return False
    return snapshot.get(CLAIMS.resource, f"{instance.metadata.namespace}/{claim['claimName']}") is None
