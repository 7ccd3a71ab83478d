"""Explains why a workload's deployment in one city is not complete."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

import msgspec

from tarmac.api.compute.explanations import Explanation, ExplanationLine, Subject
from tarmac.api.compute.names import API_VERSION
from tarmac.api.compute.workload import Placement, WorkloadDeployment, WorkloadDeploymentSpec
from tarmac.decide import reasons, rollout
from tarmac.decide.explain.answer import explanation, refusal_line, yes
from tarmac.decide.explain.instances import instance_lines
from tarmac.decide.explain.quotademand import limits_to_raise
from tarmac.decide.instances import InstanceView
from tarmac.decide.placement import LocationView, by_city, location_for
from tarmac.decide.remedies.rightsizing import either, places_to_free, room_to_make, size_that_fits
from tarmac.decide.rollout import desired_replicas
from tarmac.decide.scheduling import Pod
from tarmac.decide.snapshot.cachedreads import CachedReads
from tarmac.decide.snapshot.networks import unusable_networks
from tarmac.decide.snapshot.snapshot import DEPLOYMENTS, INSTANCES, PODS, WORKLOADS, Snapshot
from tarmac.decide.verdict import Refusal

# Left out: minReplicas, which holds the number up on purpose, and stabilization windows, which pass by themselves.
_AUTOSCALING_REASONS = (
    reasons.METRICS_UNAVAILABLE,
    reasons.TOO_FEW_METRICS,
    reasons.TOO_MANY_REPLICAS,
    reasons.SCALE_RATE_LIMITED,
)


def explain_deployment(snapshot: Snapshot, key: str) -> Explanation | None:
    """Return the explanation of a WorkloadDeployment; None when it does not exist."""
    deployment = DEPLOYMENTS.get(snapshot, key)
    if deployment is None:
        return None
    own, spec = deployment.metadata, deployment.spec
    workload = WORKLOADS.get(snapshot, f"{own.namespace}/{spec.workload_ref.name}")
    placements = workload.spec.placements if workload else []
    placement = next((each for each in placements if each.name == spec.placement_name), None)
    reads = CachedReads(snapshot)
    ready = sum(view.ready and not view.deleting for view in reads.fleet(own.namespace, own.uid))
    state = f"has {ready} of {rollout.CityGoal.of(deployment.spec).desired} instances ready in {spec.city_code}"
    unusable = unusable_networks(snapshot, own.namespace, spec.template)
    lines = [refusal_line(unusable, spec.city_code)] if unusable is not None else []
    lines += deployment_lines(reads, deployment, placement, limits_to_raise(reads, [deployment]))
    return explanation(Subject(API_VERSION, "WorkloadDeployment", own.namespace, own.name), state, lines)


def deployment_lines(
    reads: CachedReads, deployment: WorkloadDeployment, placement: Placement | None, quota_change: str
) -> list[ExplanationLine]:
    """Explain why fewer instances are ready than wanted, or than metrics ask for; one line when none is missing.

    `quota_change` is the change to suggest when a quota is exhausted.
    """
    city, goal = deployment.spec.city_code, rollout.CityGoal.of(deployment.spec)
    if deployment.metadata.deletion_timestamp is not None:
        return [refusal_line(Refusal(reasons.TERMINATING, "It is being deleted.", rule="deletion"), city)]
    if deployment.status is None or deployment.status.location is None:
        return _without_location(city, placement, reads.places)
    return [*_instance_lines(reads, deployment, goal, quota_change), *autoscaling_lines(deployment)]


def _instance_lines(
    reads: CachedReads, deployment: WorkloadDeployment, goal: rollout.CityGoal, quota_change: str
) -> list[ExplanationLine]:
    city = deployment.spec.city_code
    views = reads.fleet(deployment.metadata.namespace, deployment.metadata.uid)
    steps = rollout.plan(goal, views)
    ready = sum(view.ready and not view.deleting for view in views)
    if steps.complete:
        stopped = sum(view.stopped and not view.ready for view in views)
        message = f"{ready} of {goal.desired} instances are ready" + (f", {stopped} stopped" if stopped else "")
        return [yes(reasons.COMPLETE, message, "ready", city)]
    lines = list(_unready(reads, deployment, goal.desired, views, quota_change))
    missing = goal.desired - sum(not view.deleting for view in views)
    if steps.waiting is not None and (not lines or missing > 0 or steps.waiting.reason == reasons.PAUSED):
        lines.append(refusal_line(_with_those_behind(steps.waiting, missing), city))
    if not lines:
        message = f"{ready} of {goal.desired} instances are ready; {_next(steps)}"
        lines.append(refusal_line(Refusal(reasons.SCALING, message, rule="rollout"), city))
    return lines


def _without_location(city: str, placement: Placement | None, places: Sequence[LocationView]) -> list[ExplanationLine]:
    if placement is None:
        return [refusal_line(Refusal(reasons.TERMINATING, "Its placement is gone.", rule="placement"), city)]
    verdict = location_for(placement, city, by_city(places))
    if verdict.value is None:
        return [refusal_line(refusal, city) for refusal in verdict.refusals]
    message = f"Location {verdict.value} takes it; the scheduler is about to say so."
    return [refusal_line(Refusal(reasons.PENDING, message, rule="places"), city)]


def _unready(
    reads: CachedReads, deployment: WorkloadDeployment, desired: int, views: Iterable[InstanceView], quota_change: str
) -> Iterator[ExplanationLine]:
    """Yield, for each reason of unready instances, the lines of the first instance with that reason."""
    namespace, city = deployment.metadata.namespace, deployment.spec.city_code
    by_reason: dict[str, list[InstanceView]] = {}
    for view in sorted(views, key=lambda view: view.ordinal):
        if not view.settled and not view.deleting:
            by_reason.setdefault(view.reason, []).append(view)
    for found in by_reason.values():
        instance = INSTANCES.get(reads.snapshot, f"{namespace}/{found[0].name}")
        if instance is None:
            continue
        lines = [line for line in instance_lines(reads, instance) if line.answer != "Yes"]
        for index, line in enumerate(lines):
            message = line.message if index else f"{len(found)} of {desired} instances: {line.message}"
            change = _change(reads, deployment, desired, line, quota_change)
            yield msgspec.structs.replace(line, message=message, city=city, change=change)


def _change(
    reads: CachedReads, deployment: WorkloadDeployment, desired: int, line: ExplanationLine, quota_change: str
) -> str:
    """Return a change that is sufficient for all instances of the deployment, not only for one."""
    if line.reason == reasons.QUOTA_EXHAUSTED:
        return quota_change or line.change
    if line.rule != "nodes" or line.reason not in (reasons.INSUFFICIENT_CAPACITY, reasons.CLASS_EXHAUSTED):
        return line.change
    return _room_change(reads, deployment, desired, line.reason) or line.change


def _room_change(reads: CachedReads, deployment: WorkloadDeployment, desired: int, reason: str) -> str:
    own = deployment.metadata
    location = deployment.status.location.name if deployment.status and deployment.status.location else ""
    views = reads.fleet(own.namespace, own.uid)
    pods = [PODS.get(reads.snapshot, f"{own.namespace}/{view.name}") for view in views if not view.deleting]
    unplaced = next((pod for pod in pods if pod is not None and not pod["spec"].get("nodeName")), None)
    candidates = reads.candidates(location)
    read = candidates.read(unplaced).value if unplaced is not None else None
    if read is None:
        return ""
    cluster, demand = candidates.cluster, read.demand
    waiting = desired - sum(pod is not None and bool(pod["spec"].get("nodeName")) for pod in pods)
    if reason == reasons.CLASS_EXHAUSTED:
        return places_to_free(cluster, location, demand, waiting) if waiting > 1 else ""
    own_pods = {view.name for view in views}

    def may_go(pod: Pod) -> bool:
        """An instance of this deployment would be replaced, and names of other namespaces are their tenants'."""
        return pod.namespace == own.namespace and pod.name not in own_pods

    room = room_to_make(cluster, location, demand, waiting, may_go)
    return either(size_that_fits(cluster, location, demand, waiting), room)


def _with_those_behind(waiting: Refusal, missing: int) -> Refusal:
    """Return the reason the rollout waits, with the number of instances that are not created because of it."""
    if missing > 0 and waiting.reason == reasons.WAITING_FOR_INSTANCE:
        return replace(waiting, message=f"{missing} more to be made when {waiting.where} is ready.", rule="rollout")
    return replace(waiting, rule="rollout")


def _next(steps: rollout.RolloutSteps) -> str:
    parts = [
        f"{len(steps.create)} to be made" if steps.create else "",
        f"{len(steps.remove)} to go" if steps.remove else "",
    ]
    return " and ".join(part for part in parts if part) or "the rest is under way"


# Explains a deployment's number of replicas: unreadable metrics, and a number held back by its bounds.
#
# The number may come from the autoscaler or from a person.


def autoscaling_lines(deployment: WorkloadDeployment) -> Iterator[ExplanationLine]:
    """Yield lines from the deployment's conditions, the only place where the state of its metrics is recorded."""
    for condition in deployment.status.conditions if deployment.status else ():
        if condition.reason in _AUTOSCALING_REASONS:
            refusal = Refusal(condition.reason, condition.message, rule="autoscaling")
            yield refusal_line(refusal, deployment.spec.city_code)
    refusal = _out_of_bounds(deployment.spec)
    if refusal is not None:
        yield refusal_line(refusal, deployment.spec.city_code)


def _out_of_bounds(spec: WorkloadDeploymentSpec) -> Refusal | None:
    """Return a refusal if the deployment was scaled to a number outside the bounds of its placement."""
    requested, runs = spec.replicas, desired_replicas(spec.scale_settings, spec.replicas)
    if requested is None or requested == runs:
        return None
    high = requested > runs
    bound, verb = ("maxReplicas", "Raise") if high else ("minReplicas", "Lower")
    return Refusal(
        reasons.TOO_MANY_REPLICAS if high else reasons.TOO_FEW_REPLICAS,
        f"It was scaled to {requested}; {bound} is {runs}, so {runs} run.",
        rule="scale",
        change=f"{verb} {bound} of the placement {spec.placement_name} to {max(requested, 1)}, or scale to {runs}.",
    )
