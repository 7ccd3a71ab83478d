"""A Workload's status, and that of its placements, from its deployments."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from tarmac.api.compute.names import LABEL_MOVED_FROM
from tarmac.api.compute.workload import Counters, PlacementStatus, WorkloadDeployment, WorkloadStatus
from tarmac.api.conditions import find
from tarmac.api.shared import Condition
from tarmac.decide import reasons
from tarmac.decide.rollout import desired_replicas
from tarmac.decide.rollout.city import revision_of
from tarmac.decide.rollout.messages import rollout_failure
from tarmac.decide.rollout.waves import Waves
from tarmac.decide.rollup.conditions import Finding, is_blocking, is_telling, merge, most_actionable
from tarmac.decide.rollup.progress import progressing, readiness, summary, worst
from tarmac.decide.verdict import Refusal

_COUNTED = Counters.__struct_fields__
# A shared address that nobody announces would lead nowhere, so none is given out.
_ANYCAST = Finding(
    "AnycastReady",
    "False",
    reasons.NOT_ANNOUNCED,
    "Nothing announces shared addresses here, so the workload has none; it is reached at its instances' own.",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeploymentView:
    """A deployment as its Workload sees it. `trouble` is its summary's reason when not all is well there.

    `outdated` says that the newest revision has not reached it; its counters then have nothing that is up to date.
    """

    city: str
    outdated: bool = False
    counters: Counters = field(default_factory=Counters)
    available: Condition | None = None
    progressing: Condition | None = None
    trouble: str = ""
    location: str = ""
    deleting: bool = False

    @staticmethod
    def of(deployment: WorkloadDeployment, newest: str, *, leaving: bool = False) -> DeploymentView:
        """The view of a decoded object. What it says of an older specification of itself is not believed."""
        status, revision = deployment.status, revision_of(deployment)
        conditions = {each.type: each for each in status.conditions} if status else {}
        if status is not None and status.observed_generation < deployment.metadata.generation:
            conditions["Progressing"] = _begun(deployment, rolling=status.revision != revision)
        return DeploymentView(
            city=deployment.spec.city_code,
            outdated=revision != newest,
            counters=_counters(deployment, outdated=revision != newest),
            available=conditions.get("Available"),
            progressing=conditions.get("Progressing"),
            trouble=status.summary.reason if status and status.summary else "",
            location=status.location.name if status and status.location else "",
            deleting=leaving or deployment.metadata.deletion_timestamp is not None,
        )


def _wanted(deployment: WorkloadDeployment) -> int:
    return desired_replicas(deployment.spec.scale_settings, deployment.spec.replicas)


def _counters(deployment: WorkloadDeployment, *, outdated: bool) -> Counters:
    """What it adds to its Workload. Instances that moved here are wanted once, where they came from."""
    status, moved = deployment.status, LABEL_MOVED_FROM in deployment.metadata.labels
    if status is None:
        return Counters(desired_replicas=0 if moved else _wanted(deployment))
    return Counters(
        replicas=status.replicas,
        current_replicas=0 if outdated else status.current_replicas,
        desired_replicas=0 if moved else status.desired_replicas,
        ready_replicas=status.ready_replicas,
        updated_replicas=0 if outdated else status.updated_replicas,
    )


def _begun(deployment: WorkloadDeployment, *, rolling: bool) -> Condition:
    """What a deployment will say of a specification that it has not looked at yet."""
    reason = reasons.NEW_REVISION if rolling else reasons.SCALING
    return Condition("Progressing", "True", reason, f"{deployment.spec.city_code}: its specification has changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementFacts:
    """A placement of the specification: the cities it means now, its deployments, and what is against it."""

    name: str
    cities: Sequence[str] = ()
    deployments: Sequence[DeploymentView] = ()
    blocks: Sequence[Refusal] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFacts:
    """What a Workload's status follows from. `orphans` are deployments of placements that are no more."""

    generation: int
    revision: str = ""
    waves: Waves | None = None
    placements: Sequence[PlacementFacts] = ()
    orphans: Sequence[DeploymentView] = ()
    blocks: Sequence[Refusal] = ()
    anycast: bool = False  # whether a shared address is asked for
    paused: bool = False
    deleting: bool = False


def workload_status(given: WorkloadFacts, old: WorkloadStatus | None, now: float) -> WorkloadStatus:
    """The whole status; equal to the old one when nothing changed. Placements come in the specification's order."""
    old = old or WorkloadStatus()
    before = {placement.name: placement for placement in old.placements}
    placements = [_placement(each, before.get(each.name), given.generation, now) for each in given.placements]
    status = WorkloadStatus(
        observed_generation=given.generation,
        placements=placements,
        revision=given.revision,
        rollout=given.waves.status if given.waves else None,
        deployments=sum(len(each.deployments) for each in given.placements) + len(given.orphans),
    )
    _add(status, placements)
    _add(status, (orphan.counters for orphan in given.orphans))
    deployments = [each for placement in given.placements for each in placement.deployments]
    blocks = [*given.blocks, *(block for placement in given.placements for block in placement.blocks)]
    failed = rollout_failure(given.waves) if given.waves else None
    blocks += [failed] if failed else []
    available = _available(
        [find(placement.conditions, "Available") for placement in placements],
        given.blocks,
        Finding("Available", "True", reasons.AVAILABLE_PLACEMENT_FOUND, "At least one available placement was found"),
        Refusal(reasons.NO_AVAILABLE_PLACEMENTS, "No available placements were found for the workload"),
    )
    progress = _progress(deployments, blocks)
    kept = [each for each in old.conditions if each.type != _ANYCAST.type]
    said = (available, progress, readiness(progress), *((_ANYCAST,) if given.anycast else ()))
    status.conditions = merge(old.conditions if given.anycast else kept, said, given.generation, now)
    status.summary = summary(
        status.ready_replicas,
        status.desired_replicas,
        progress,
        _trouble(deployments, blocks),
        paused=given.paused,
        deleting=given.deleting,
        cities=_cities(given),
    )
    return status


def _placement(given: PlacementFacts, old: PlacementStatus | None, generation: int, now: float) -> PlacementStatus:
    locations = {each.location for each in given.deployments if each.location and not each.deleting}
    status = PlacementStatus(name=given.name, locations=sorted(locations))
    _add(status, (deployment.counters for deployment in given.deployments))
    available = _available(
        [deployment.available for deployment in given.deployments if not deployment.deleting],
        given.blocks,
        Finding("Available", "True", reasons.AVAILABLE_DEPLOYMENT_FOUND, "At least one available deployment was found"),
        Refusal(reasons.NO_AVAILABLE_DEPLOYMENTS, "No available deployments were found for the placement"),
    )
    findings = (available, _progress(given.deployments, given.blocks))
    status.conditions = merge(old.conditions if old else [], findings, generation, now)
    return status


def _add(total: Counters, parts: Iterable[Counters]) -> None:
    for part in parts:
        for name in _COUNTED:
            setattr(total, name, getattr(total, name) + getattr(part, name))


def _available(
    children: Sequence[Condition | None], blocks: Sequence[Refusal], good: Finding, generic: Refusal
) -> Finding:
    """True when one child is; else the most actionable reason of all, or the generic one."""
    if any(child is not None and child.status == "True" for child in children):
        return good
    told = [Refusal(child.reason, child.message) for child in children if child is not None]
    shown = most_actionable((generic, *blocks, *told)) or generic
    return Finding("Available", "False", shown.reason, shown.message)


def _progress(deployments: Sequence[DeploymentView], blocks: Sequence[Refusal]) -> Finding:
    """Blocked when one is, then rolling, then scaling, and complete when all are."""
    found = worst(block for block in blocks if is_blocking(block.reason))
    if found is not None:
        return found
    staying = [each for each in deployments if not each.deleting]
    children = [each.progressing for each in staying]
    refused = [child for child in children if child is not None and child.status == "False"]
    if refused:
        return _most_actionable_child(refused)
    for reason, words in ((reasons.NEW_REVISION, "The newest revision rolls out"), (reasons.SCALING, "Scaling")):
        cities = [each.city for each in staying if each.progressing is not None and each.progressing.reason == reason]
        if cities:
            return progressing(reason, f"{words} in {', '.join(dict.fromkeys(cities))}{_outstanding(staying)}")
    paused = next((child for child in children if child is not None and child.status == "Unknown"), None)
    if paused is not None:
        return Finding("Progressing", "Unknown", paused.reason, paused.message)
    if any(each.outdated for each in staying):
        return progressing(reasons.NEW_REVISION, f"The newest revision rolls out{_outstanding(staying)}")
    if not staying or None in children or len(staying) < len(deployments):
        return progressing(reasons.SCALING, "Deployments are being made or removed")
    return progressing(reasons.COMPLETE, "Every instance that is wanted is ready")


def _outstanding(deployments: Iterable[DeploymentView]) -> str:
    cities = list(dict.fromkeys(each.city for each in deployments if each.outdated))
    return f"; {', '.join(cities)} {'has' if len(cities) == 1 else 'have'} it later" if cities else ""


def _most_actionable_child(refused: Sequence[Condition]) -> Finding:
    """The children's own messages name their cities; several of one reason stand side by side."""
    top = max(refused, key=lambda child: reasons.priority(child.reason))
    messages = [child.message for child in refused if child.reason == top.reason]
    return Finding("Progressing", "False", top.reason, "; ".join(messages))


def _trouble(deployments: Sequence[DeploymentView], blocks: Sequence[Refusal]) -> Refusal | None:
    below = (Refusal(each.trouble, "", each.city) for each in deployments if each.trouble and not each.deleting)
    return most_actionable(each for each in (*blocks, *below) if is_telling(each.reason))


def _cities(given: WorkloadFacts) -> str:
    """Cities with something ready, of those that are wanted or have something."""
    deployments = [each for placement in given.placements for each in placement.deployments if not each.deleting]
    wanted = {city for placement in given.placements for city in placement.cities}
    ready = {each.city for each in deployments if each.counters.ready_replicas}
    return f"{len(ready)}/{len(wanted | {each.city for each in deployments})}"
