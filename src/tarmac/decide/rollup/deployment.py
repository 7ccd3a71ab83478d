"""Computes a WorkloadDeployment's status from its instances."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tarmac.api.compute.workload import StartFailure, WorkloadDeploymentStatus
from tarmac.api.conditions import find
from tarmac.api.declare import Time
from tarmac.base.clock import rfc3339
from tarmac.base.duration import human_duration
from tarmac.decide import reasons
from tarmac.decide.instances import InstanceView
from tarmac.decide.rollup.conditions import Finding, is_blocking, is_specific, merge, most_actionable
from tarmac.decide.rollup.progress import progressing, readiness, summary, worst
from tarmac.decide.verdict import Refusal

_REFUSED: Final = frozenset(
    {reasons.IMAGE_UNAVAILABLE, reasons.IMAGE_REFUSED, reasons.CONFIGURATION_ERROR, reasons.SOURCE_NOT_FOUND}
)
_CRASHED: Final = frozenset(
    {reasons.GUEST_PANICKED, reasons.MACHINE_FAILED, reasons.INSTANCE_CRASHING, reasons.OUT_OF_MEMORY}
)
REPEATED: Final = 2  # exits after which a crash is not an accident
MIN_WINDOW: Final = 10.0  # seconds; a shorter window would not see that an instance is ready only between its exits


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentFacts:
    """Input of a deployment's status. `blocks` are the refusals of scheduler, networks and quota.

    `window` is the observation window of its rollout in seconds.
    """

    city: str
    generation: int
    desired: int
    template_hash: str
    revision: str = ""
    selector: str = ""
    instances: Sequence[InstanceView] = ()
    blocks: Sequence[Refusal] = ()
    located: bool = True
    network_ready: bool = True
    paused: bool = False
    deleting: bool = False
    window: float = 0


def deployment_status(
    given: DeploymentFacts, old: WorkloadDeploymentStatus | None, now: float
) -> tuple[WorkloadDeploymentStatus, float | None]:
    """Return the whole status, and the seconds until time alone changes it.

    The status equals the old one when nothing changed. The location belongs to the scheduler and `scaling` to the
    autoscaler: both are copied from the old status.
    """
    old = old or WorkloadDeploymentStatus()
    status = WorkloadDeploymentStatus(
        observed_generation=given.generation,
        location=old.location,
        scaling=old.scaling,
        revision=given.revision,
        selector=given.selector,
        desired_replicas=0 if given.deleting else given.desired,
    )
    _count(given, status)
    troubles = [*given.blocks, *_troubles(given, now)]
    top = most_actionable(trouble for trouble in troubles if is_specific(trouble.reason))
    available = _available(given, status, top)
    progress = _progress(given, status, troubles, old)
    status.conditions = merge(old.conditions, (available, progress, readiness(progress)), given.generation, now)
    status.last_progress_time = _last_progress(status, old, now)
    known = old.start_failure if old.revision == given.revision else None
    status.start_failure = start_failure(given.instances, given.template_hash, known, now, given.window)
    status.summary = summary(status, progress, top, paused=given.paused, deleting=given.deleting)
    return status, _patience_left(given, now)


def _last_progress(status: WorkloadDeploymentStatus, old: WorkloadDeploymentStatus, now: float) -> Time:
    """Return the time when the deployment last came closer to its goal, or when its goal changed."""
    closer = (
        status.revision != old.revision
        or status.desired_replicas != old.desired_replicas
        or status.updated_replicas > old.updated_replicas
        or status.ready_replicas > old.ready_replicas
        or status.stopped_replicas != old.stopped_replicas
        or status.replicas < old.replicas
    )
    return Time(rfc3339(now)) if closer or old.last_progress_time is None else old.last_progress_time


def _count(given: DeploymentFacts, status: WorkloadDeploymentStatus) -> None:
    """Count the instances. `replicas` includes instances being deleted; all other counters exclude them."""
    newest, ready, updated, current, stopped = given.template_hash, 0, 0, 0, 0
    for instance in given.instances:
        if instance.deleting:
            continue
        ready += instance.ready
        stopped += instance.stopped and not instance.ready
        if instance.template_hash == newest:
            updated += 1
            status.restarts += instance.restarts
            current += instance.programmed and instance.observed_hash == newest
    status.replicas, status.ready_replicas = len(given.instances), ready
    status.updated_replicas, status.current_replicas, status.stopped_replicas = updated, current, stopped


def _troubles(given: DeploymentFacts, now: float) -> Iterator[Refusal]:
    """Yield one entry per reason, with the number of instances that have it.

    Outdated instances are left out, since they are about to be replaced, unless the deployment is paused.
    """
    by_reason: dict[str, list[InstanceView]] = {}
    for instance in given.instances:
        if instance.settled or instance.deleting:
            continue
        if given.paused or instance.template_hash == given.template_hash:
            stalled = _waited(instance, now) > _patience(instance)
            by_reason.setdefault(reasons.STALLED if stalled else instance.reason, []).append(instance)
    for reason, found in by_reason.items():
        first = min(found, key=lambda instance: instance.ordinal)
        detail = first.message or first.reason
        if reason == reasons.STALLED:
            detail = f"{first.name} has been {first.reason} for {human_duration(_waited(first, now))}: {detail}"
        yield Refusal(reason, f"{len(found)} of {given.desired} instances: {detail}", given.city)


def _available(given: DeploymentFacts, status: WorkloadDeploymentStatus, top: Refusal | None) -> Finding:
    ready = status.ready_replicas
    if ready:
        message = f"{ready}/{status.replicas} instances are ready"
        return Finding("Available", "True", reasons.STABLE_INSTANCE_FOUND, message)
    if top is not None:
        return Finding("Available", "False", top.reason, f"{given.city}: {top.message}")
    if status.stopped_replicas:
        message = f"{given.city}: {status.stopped_replicas} of {given.desired} machines are stopped"
        return Finding("Available", "False", reasons.STOPPED, message)
    if not given.located:
        return Finding("Available", "False", reasons.PENDING, "Waiting for a location.")
    if not given.network_ready:
        return Finding("Available", "False", reasons.PROVISIONING_NETWORK, "Network is being provisioned")
    if not status.replicas:
        return Finding("Available", "False", reasons.LOCATION_ASSIGNED, "Deployment has been assigned a location.")
    return Finding("Available", "False", reasons.PROVISIONING_INSTANCES, "Instances are being provisioned")


def _progress(
    given: DeploymentFacts,
    status: WorkloadDeploymentStatus,
    troubles: Sequence[Refusal],
    old: WorkloadDeploymentStatus,
) -> Finding:
    desired, ready, updated = status.desired_replicas, status.ready_replicas, status.updated_replicas
    stopped = status.stopped_replicas
    if status.replicas == desired == ready + stopped == updated:
        here = f"{ready} of {desired} instances are ready, {stopped} stopped"
        here = here if stopped else f"all {desired} instances are ready"
        return progressing(reasons.COMPLETE, f"{given.city}: {here}")
    if given.paused:
        return Finding("Progressing", "Unknown", reasons.PAUSED, f"{given.city}: rollout and scaling are paused")
    found = worst(_in(given.city, trouble) for trouble in troubles if is_blocking(trouble.reason))
    if found is not None and not given.deleting:
        return found
    outdated = any(instance.template_hash != given.template_hash for instance in given.instances)
    if not given.deleting and (outdated or _was_rolling(old, given.revision)):
        message = f"{given.city}: {updated} of {desired} instances are of the newest revision, {ready} are ready"
        return progressing(reasons.NEW_REVISION, message)
    message = f"{given.city}: {status.replicas} instances exist, {desired} are wanted, {ready} are ready"
    return progressing(reasons.SCALING, message)


def _in(city: str, refusal: Refusal) -> Refusal:
    return Refusal(refusal.reason, refusal.message, city, refusal.rule, refusal.change)


def _was_rolling(old: WorkloadDeploymentStatus, revision: str) -> bool:
    """Return True if a rollout is in progress: also while its last instances have yet to become ready."""
    if old.revision and old.revision != revision:
        return True
    progressing = find(old.conditions, "Progressing")
    return progressing is not None and progressing.reason == reasons.NEW_REVISION


def _waited(instance: InstanceView, now: float) -> float:
    return now - instance.since if instance.since else 0


def _patience(instance: InstanceView) -> float:
    known = reasons.CATALOGUE.get(instance.reason)
    return known.patience if known and known.patience else float("inf")


def _patience_left(given: DeploymentFacts, now: float) -> float | None:
    waiting = (
        _patience(instance) - _waited(instance, now)
        for instance in given.instances
        if not instance.settled and not instance.deleting and instance.since
    )
    settling = (settles_in(instance, now, given.window) for instance in given.instances if not instance.deleting)
    left = min((seconds for seconds in (*waiting, *settling) if seconds > 0), default=float("inf"))
    return None if left == float("inf") else left


# Instances of the newest template that cannot start or exit repeatedly.
#
# A rollout fails when a start failure lasts. The failure is stored in the deployment's status with the time when it was
# first seen: an Instance's own condition only has the time since it is not ready, and a crash-looping instance is ready
# in between. One exit is forgiven. After more, the instance counts as started once it has been ready for the
# observation window of its Workload.


def start_failure(
    instances: Iterable[InstanceView], newest: str, known: StartFailure | None, now: float, window: float
) -> StartFailure | None:
    """Return the failure of the first instance that cannot start.

    `since` is kept while the instance of the known failure still fails. `window` is the `minReadySeconds` of the
    rollout.
    """
    failing = [each for each in instances if each.template_hash == newest and not each.deleting]
    failing = [each for each in failing if _cannot_start(each, now, window)]
    if not failing:
        return None
    first = min(failing, key=lambda each: each.ordinal)
    same = known is not None and any(known.instance == each.name for each in failing)
    since = known.since if known is not None and same else Time(rfc3339(now))
    if first.ready:
        message = f"it has exited {first.restarts} times and was started again a moment ago"
        return StartFailure(first.name, reasons.INSTANCE_CRASHING, message, since)
    return StartFailure(first.name, first.reason, first.message, since)


def settles_in(instance: InstanceView, now: float, window: float) -> float:
    """Return the seconds until a ready instance with repeated exits counts as started; at most 0 for any other one."""
    if not instance.ready or instance.restarts < REPEATED:
        return 0
    return max(window, MIN_WINDOW) - (now - instance.ready_since)


def _cannot_start(instance: InstanceView, now: float, window: float) -> bool:
    if instance.ready:
        return settles_in(instance, now, window) > 0
    if instance.reason in _CRASHED:
        return instance.restarts + 1 >= REPEATED  # this exit and the earlier ones
    return instance.reason in _REFUSED
