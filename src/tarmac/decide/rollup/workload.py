"""Computes the status of a Workload and of its placements from its deployments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice

from tarmac.api.compute.workload import Counters, PlacementStatus, WorkloadStatus
from tarmac.api.conditions import find
from tarmac.api.shared import Condition
from tarmac.decide import reasons
from tarmac.decide.rollout.wavemessages import rollout_failure
from tarmac.decide.rollout.waves import Waves
from tarmac.decide.rollup.conditions import Finding, is_blocking, is_specific, merge, most_actionable
from tarmac.decide.rollup.progress import listed, progressing, readiness, summary, worst
from tarmac.decide.rollup.tally import DeploymentGroup, DeploymentTally
from tarmac.decide.rollup.view import DeploymentView
from tarmac.decide.verdict import Refusal

_COUNTED = Counters.__struct_fields__
_MESSAGES = 10  # cities with the same reason
# With the feature gate WayIn off nothing announces addresses, and one would be unreachable: none is assigned.
_ANYCAST = Finding(
    "AnycastReady",
    "False",
    reasons.NOT_ANNOUNCED,
    "Nothing announces shared addresses here, so the workload has none; it is reached at its instances' own.",
)
_UNDER_WAY = (
    (DeploymentGroup.ROLLING, reasons.NEW_REVISION, "The newest revision rolls out"),
    (DeploymentGroup.SCALING, reasons.SCALING, "Scaling"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementFacts:
    """A placement of the specification: its current cities, the tally of its deployments, and its refusals."""

    name: str
    cities: Sequence[str] = ()
    deployments: DeploymentTally = field(default_factory=DeploymentTally)
    blocks: Sequence[Refusal] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadFacts:
    """Input of a Workload's status. `orphans` are deployments of removed placements."""

    generation: int
    revision: str = ""
    waves: Waves | None = None
    placements: Sequence[PlacementFacts] = ()
    orphans: DeploymentTally = field(default_factory=DeploymentTally)
    blocks: Sequence[Refusal] = ()
    anycast: bool = False  # the specification requests a shared address
    announces: bool = False  # another controller reports about shared addresses
    paused: bool = False
    deleting: bool = False


def workload_status(given: WorkloadFacts, old: WorkloadStatus | None, now: float) -> WorkloadStatus:
    """Return the whole status; equal to the old one when nothing changed.

    Placements are in the specification's order.
    """
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
    _add(status, (given.orphans.counters,))
    tallies = [placement.deployments for placement in given.placements]
    blocks = [*given.blocks, *(block for placement in given.placements for block in placement.blocks)]
    failed = rollout_failure(given.waves) if given.waves else None
    blocks += [failed] if failed else []
    available = _available(
        [find(placement.conditions, "Available") for placement in placements],
        given.blocks,
        Finding("Available", "True", reasons.AVAILABLE_PLACEMENT_FOUND, "At least one available placement was found"),
        Refusal(reasons.NO_AVAILABLE_PLACEMENTS, "No available placements were found for the workload"),
    )
    progress = _progress(tallies, blocks)
    kept = [each for each in old.conditions if each.type != _ANYCAST.type]
    if given.announces:
        # The writer of these fields removes them as well, once the address is released.
        kept, status.anycast_addresses, status.anycast = list(old.conditions), old.anycast_addresses, old.anycast
    findings = (
        available,
        progress,
        readiness(progress),
        *((_ANYCAST,) if given.anycast and not given.announces else ()),
    )
    status.conditions = merge(old.conditions if given.anycast else kept, findings, given.generation, now)
    status.summary = summary(
        status,
        progress,
        _trouble(tallies, blocks),
        paused=given.paused,
        deleting=given.deleting,
        cities=_cities(given),
    )
    return status


def _placement(given: PlacementFacts, old: PlacementStatus | None, generation: int, now: float) -> PlacementStatus:
    tally = given.deployments
    status = PlacementStatus(name=given.name, locations=tally.locations)
    _add(status, (tally.counters,))
    unavailable = tally.first_of_each(DeploymentGroup.UNAVAILABLE)
    available = _available(
        [each.available for each in (*islice(tally.members(DeploymentGroup.AVAILABLE), 1), *unavailable)],
        given.blocks,
        Finding("Available", "True", reasons.AVAILABLE_DEPLOYMENT_FOUND, "At least one available deployment was found"),
        Refusal(reasons.NO_AVAILABLE_DEPLOYMENTS, "No available deployments were found for the placement"),
    )
    findings = (available, _progress([tally], given.blocks))
    status.conditions = merge(old.conditions if old else [], findings, generation, now)
    return status


def _add(total: Counters, parts: Iterable[Counters]) -> None:
    for part in parts:
        for name in _COUNTED:
            setattr(total, name, getattr(total, name) + getattr(part, name))


def _available(
    children: Sequence[Condition | None], blocks: Sequence[Refusal], good: Finding, generic: Refusal
) -> Finding:
    """Return a True finding if one child is available; else the most actionable reason of all, or the generic one."""
    if any(child is not None and child.status == "True" for child in children):
        return good
    refusals = [Refusal(child.reason, child.message) for child in children if child is not None]
    shown = most_actionable((generic, *blocks, *refusals)) or generic
    return Finding("Available", "False", shown.reason, shown.message)


def _progress(tallies: Sequence[DeploymentTally], blocks: Sequence[Refusal]) -> Finding:
    """Return the first state that any deployment has: blocked, rolling, scaling, paused; complete when all are."""
    found = worst(block for block in blocks if is_blocking(block.reason))
    if found is not None:
        return found
    if any(tally.any(DeploymentGroup.REFUSED) for tally in tallies):
        return _most_actionable_child(tallies)
    for group, reason, words in _UNDER_WAY:
        cities = _cities_in(tallies, group)
        if cities:
            return progressing(reason, f"{words} in {listed(cities)}{_outstanding(tallies)}")
    paused = next((each.progressing for each in _in(tallies, DeploymentGroup.PAUSED)), None)
    if paused is not None:
        return Finding("Progressing", "Unknown", paused.reason, paused.message)
    if any(tally.any(DeploymentGroup.OUTDATED) for tally in tallies):
        return progressing(reasons.NEW_REVISION, f"The newest revision rolls out{_outstanding(tallies)}")
    staying, unreported = (
        sum(tally.staying for tally in tallies),
        any(tally.any(DeploymentGroup.UNREPORTED) for tally in tallies),
    )
    if not staying or unreported or staying < sum(len(tally) for tally in tallies):
        return progressing(reasons.SCALING, "Deployments are being made or removed")
    return progressing(reasons.COMPLETE, "Every instance that is meant to run is ready")


def _in(tallies: Iterable[DeploymentTally], group: DeploymentGroup, reason: str = "") -> Iterator[DeploymentView]:
    return (each for tally in tallies for each in tally.members(group, reason))


def _cities_in(tallies: Iterable[DeploymentTally], group: DeploymentGroup) -> list[str]:
    return list(dict.fromkeys(each.city for each in _in(tallies, group)))


def _outstanding(tallies: Sequence[DeploymentTally]) -> str:
    cities = _cities_in(tallies, DeploymentGroup.OUTDATED)
    return f"; {listed(cities)} {'has' if len(cities) == 1 else 'have'} it later" if cities else ""


def _most_actionable_child(tallies: Sequence[DeploymentTally]) -> Finding:
    """Return the most actionable reason of the children, with the messages of all children that have it.

    The messages name their cities; at most `_MESSAGES` are listed.
    """
    refused = (each.progressing for tally in tallies for each in tally.first_of_each(DeploymentGroup.REFUSED))
    top = max((each.reason for each in refused if each is not None), key=reasons.priority)
    messages = [each.progressing.message for each in _in(tallies, DeploymentGroup.REFUSED, top) if each.progressing]
    more = [f"and {len(messages) - _MESSAGES} more cities"] if len(messages) > _MESSAGES else []
    return Finding("Progressing", "False", top, "; ".join((*messages[:_MESSAGES], *more)))


def _trouble(tallies: Iterable[DeploymentTally], blocks: Sequence[Refusal]) -> Refusal | None:
    troubled = (each for tally in tallies for each in tally.first_of_each(DeploymentGroup.TROUBLED))
    below = (Refusal(each.trouble, "", each.city) for each in troubled)
    return most_actionable(each for each in (*blocks, *below) if is_specific(each.reason))


def _cities(given: WorkloadFacts) -> str:
    """Return the ratio of cities with a ready instance to cities that are wanted or have a deployment."""
    ready = {city for placement in given.placements for city in placement.deployments.ready_cities}
    known = {city for each in given.placements for city in (*each.cities, *each.deployments.cities)}
    return f"{len(ready)}/{len(known)}"
