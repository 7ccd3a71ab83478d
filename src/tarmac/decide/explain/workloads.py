"""Explains why a workload is not complete, city by city."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tarmac.api.compute.explanations import Explanation, ExplanationLine, Subject
from tarmac.api.compute.instancetype import object_name
from tarmac.api.compute.names import API_VERSION
from tarmac.api.compute.workload import Placement, Workload, WorkloadDeployment
from tarmac.api.kubernetes.priorityclasses import SYSTEM
from tarmac.decide import reasons
from tarmac.decide.derived.goal import WorkloadGoal, goal_of
from tarmac.decide.derived.waves import rollout_facts
from tarmac.decide.explain.answer import explanation, refusal_line
from tarmac.decide.explain.anycast import anycast_lines
from tarmac.decide.explain.deployments import deployment_lines
from tarmac.decide.explain.quotademand import limits_to_raise
from tarmac.decide.instancetypes import retirement
from tarmac.decide.rollout.stored import history_now
from tarmac.decide.rollout.wavemessages import rollout_failure, wave_progress
from tarmac.decide.rollout.waves import Waves, waves
from tarmac.decide.snapshot.cachedreads import CachedReads
from tarmac.decide.snapshot.deploymentlookup import deployments_of
from tarmac.decide.snapshot.networks import unusable_networks
from tarmac.decide.snapshot.snapshot import INSTANCE_TYPES, PRIORITY_CLASSES, WORKLOADS, Snapshot
from tarmac.decide.verdict import Refusal


def explain_workload(snapshot: Snapshot, key: str) -> Explanation | None:
    """Return the explanation of a Workload; None when it does not exist."""
    workload = WORKLOADS.get(snapshot, key)
    if workload is None:
        return None
    own = workload.metadata
    lines = list(dict.fromkeys(_lines(snapshot, workload)))
    return explanation(Subject(API_VERSION, "Workload", own.namespace, own.name), _state(workload), lines)


def _retired_type(snapshot: Snapshot, workload: Workload) -> Refusal | None:
    used = INSTANCE_TYPES.get(snapshot, object_name(workload.spec.template.spec.runtime.resources.instance_type))
    return retirement(used) if used is not None else None


def _lines(snapshot: Snapshot, workload: Workload) -> Iterator[ExplanationLine]:
    if workload.metadata.deletion_timestamp is not None:
        yield refusal_line(Refusal(reasons.TERMINATING, "It is being deleted.", rule="deletion"))
    unusable = unusable_networks(snapshot, workload.metadata.namespace, workload.spec.template)
    if unusable is not None:
        yield refusal_line(unusable)
    retired = _retired_type(snapshot, workload)
    if retired is not None:
        yield refusal_line(retired)
    unranked = missing_class(snapshot, workload.spec.template.spec.priority_class_name)
    if unranked is not None:
        yield refusal_line(unranked)
    reads, deployments = CachedReads(snapshot), deployments_of(snapshot, workload)
    goal, change = goal_of(workload, reads.places, deployments, snapshot.now), limits_to_raise(reads, deployments)
    history = history_now(workload, snapshot.now)
    facts = rollout_facts(workload, history, goal, reads.places, deployments, snapshot.now)
    yield from _rollout_lines(waves(facts, snapshot.now))
    for placement in workload.spec.placements:
        own = [each for each in deployments if each.spec.placement_name == placement.name]
        yield from _placement_lines(reads, placement, goal, own, change)
    yield from anycast_lines(workload)


def _rollout_lines(waves: Waves) -> Iterator[ExplanationLine]:
    failed, progress = rollout_failure(waves), wave_progress(waves)
    if failed is not None:
        yield refusal_line(failed, failed.where)
    if progress is not None:
        yield refusal_line(progress)


def _placement_lines(
    reads: CachedReads,
    placement: Placement,
    goal: WorkloadGoal,
    deployments: Sequence[WorkloadDeployment],
    quota_change: str,
) -> Iterator[ExplanationLine]:
    cities = goal.cities[placement.name]
    for refusal in goal.blocks[placement.name]:
        yield refusal_line(refusal, refusal.where if refusal.where in cities else "")
    for deployment in sorted(deployments, key=lambda each: each.spec.city_code):
        yield from deployment_lines(reads, deployment, placement, quota_change)
    for city in cities:
        if all(each.spec.city_code != city for each in deployments):
            yield refusal_line(Refusal(reasons.PENDING, "Its deployment is about to be made.", rule="placement"), city)


def _state(workload: Workload) -> str:
    status = workload.status
    if status is None:
        return "is new"
    cities = status.summary.cities if status.summary else ""
    served, _, wanted = cities.partition("/")
    where = f" in {served} of {wanted} cities" if wanted else ""
    return f"has {status.ready_replicas} of {status.desired_replicas} instances ready{where}"


# Explains a priority class that was deleted after objects naming it were admitted.
#
# Existing pods keep their priority, but no new pod that names the class is admitted, so pods that end are not replaced.


def missing_class(snapshot: Snapshot, name: str) -> Refusal | None:
    """Return a refusal if the class that a template or pod names does not exist; else None."""
    source = PRIORITY_CLASSES.resource
    if not name or name in SYSTEM or not snapshot.holds(source) or snapshot.get(source, name) is not None:
        return None
    message = f"PriorityClass {name} does not exist: running Pods keep their priority, and no new ones are admitted."
    change = f"Create PriorityClass {name}, or name another in priorityClassName."
    return Refusal(reasons.PRIORITY_CLASS_NOT_FOUND, message, rule="priority", change=change)
