"""The plan of one Workload."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

import msgspec

from tarmac.api.compute.explanations import CityPlan, Refused
from tarmac.api.compute.names import claim_name
from tarmac.api.compute.workload import Placement, Workload, WorkloadDeployment
from tarmac.api.networking.location import is_simulated
from tarmac.api.shared import ResourceList
from tarmac.api.status import BadRequest
from tarmac.decide import reasons
from tarmac.decide.bootdisks import boot_volume, is_of_another_image
from tarmac.decide.derived.deployments import Child, document
from tarmac.decide.derived.goal import WorkloadGoal, goal_of
from tarmac.decide.derived.volumes import populated
from tarmac.decide.derived.waves import rollout_facts
from tarmac.decide.instances import InstanceView
from tarmac.decide.machineimages import Images, images_of
from tarmac.decide.placement import LocationView, by_city, location_for
from tarmac.decide.plans.difference import Difference, difference
from tarmac.decide.plans.quota import grant
from tarmac.decide.plans.room import amounts_of, remove, take_room, unplaced
from tarmac.decide.powerstate import is_stopped
from tarmac.decide.rollout.stored import history_now
from tarmac.decide.rollout.waves import waves_to_come
from tarmac.decide.snapshot.cachedreads import CachedReads
from tarmac.decide.snapshot.candidates import CandidateNodes
from tarmac.decide.snapshot.deploymentlookup import deployments_of
from tarmac.decide.snapshot.networks import unusable_networks
from tarmac.decide.snapshot.places import in_cities, places_of
from tarmac.decide.snapshot.snapshot import CLAIMS, LOCAL_MACHINE_IMAGES, LOCATIONS, MACHINE_IMAGES, Snapshot
from tarmac.decide.verdict import Refusal

_LONG_AGO = 1e9  # a city removed in a plan was lost so long ago that all its instances have moved


def plan_workload(snapshot: Snapshot, workload: Workload, without: Collection[str] = ()) -> list[CityPlan]:
    """Return the plan for each city if the Workload were stored as given and these cities were lost.

    An existing Workload must carry its uid, by which its deployments are found. Raises BadRequest for a city without a
    Location, since it cannot be lost.
    """
    goal, found = _planned(snapshot, workload, without)
    return [*_merged(found), *_nowhere(goal)]


def differences(snapshot: Snapshot, workload: Workload, without: Collection[str] = ()) -> list[Difference]:
    """Return the differences of each deployment that would exist, and of those that would be deleted."""
    return _planned(snapshot, workload, without)[1]


def _planned(snapshot: Snapshot, workload: Workload, without: Collection[str]) -> tuple[WorkloadGoal, list[Difference]]:
    _check_cities(snapshot, without)
    reads, existing = CachedReads(snapshot), deployments_of(snapshot, workload)
    goal = goal_of(workload, _places(snapshot, without), existing, snapshot.now)
    candidates = CandidateNodes(
        snapshot, in_cities(snapshot, {child.city for child in goal.children.values()} - {*without})
    )
    found = list(_differences(reads, workload, goal, existing))
    _order(workload, goal, _places(snapshot, without), existing, found, snapshot.now)
    _locate(workload, goal, _places(snapshot, without, candidates), found)
    _refuse_what_is_blocked(snapshot, workload, found)
    _make(snapshot, candidates, workload.metadata.namespace, [each for each in found if not each.refused])
    return goal, [*found, *_leaving(reads, goal, existing)]


def _check_cities(snapshot: Snapshot, without: Collection[str]) -> None:
    known = {place.city for place in places_of(snapshot)}
    unknown = sorted({*without} - known)
    if unknown:
        raise BadRequest(
            f"without: no Location is in {', '.join(unknown)}; there are some in {', '.join(sorted(known))}"
        )


def _places(
    snapshot: Snapshot, without: Collection[str], candidates: CandidateNodes | None = None
) -> list[LocationView]:
    places = places_of(snapshot, candidates)
    lost = snapshot.now - _LONG_AGO
    return [replace(each, ready=False, since=lost) if each.city in without else each for each in places]


def _differences(
    reads: CachedReads, workload: Workload, goal: WorkloadGoal, existing: Sequence[WorkloadDeployment]
) -> Iterator[Difference]:
    """Yield the difference of each deployment that would exist."""
    present = {each.metadata.name: each for each in existing if each.metadata.deletion_timestamp is None}
    for name, child in goal.children.items():
        known = present.get(name)
        deployment = _as_it_would_be(workload, child, known)
        found = difference(deployment, _fleet(reads, known) if known else ())
        found.moved = bool(child.moved_from)
        found.switches = known is not None and is_stopped(known.spec.template.spec) != found.stopped
        found.unplaced = unplaced(reads.snapshot, found)
        yield found


def _fleet(reads: CachedReads, deployment: WorkloadDeployment) -> list[InstanceView]:
    return reads.fleet(deployment.metadata.namespace, deployment.metadata.uid)


def _as_it_would_be(workload: Workload, child: Child, known: WorkloadDeployment | None) -> WorkloadDeployment:
    """Return the deployment as its Workload would write it, keeping the fields of scaling and of the scheduler."""
    wanted = document(workload, child, workload.spec.template)
    if known is None:
        return wanted
    spec = msgspec.structs.replace(wanted.spec, replicas=known.spec.replicas)
    return WorkloadDeployment(metadata=known.metadata, spec=spec, status=known.status)


def _order(
    workload: Workload,
    goal: WorkloadGoal,
    places: Sequence[LocationView],
    existing: Sequence[WorkloadDeployment],
    found: Sequence[Difference],
    now: float,
) -> None:
    """Set the wave in which each deployment gets its new template."""
    to_come = waves_to_come(rollout_facts(workload, history_now(workload, now), goal, places, existing, now))
    for each in found:
        each.wave = to_come.get(each.deployment.metadata.name, 0)


def _locate(
    workload: Workload, goal: WorkloadGoal, places: Sequence[LocationView], found: Sequence[Difference]
) -> None:
    """Set the Location of each deployment, or record why it has none."""
    here = by_city(places)
    lost = here.keys() - {place.city for place in places if place.ready}
    placements = {placement.name: placement for placement in workload.spec.placements}
    for each in found:
        placement = placements[each.deployment.spec.placement_name]
        status = each.deployment.status
        if each.city in lost:
            _lose(each, goal, placement)
        elif status is not None and status.location is not None:
            each.location = status.location.name
        else:
            verdict = location_for(placement, each.city, here)
            each.location = verdict.value or ""
            if verdict.value is None:
                each.refuse(verdict.refusals[0])


def _lose(found: Difference, goal: WorkloadGoal, placement: Placement) -> None:
    """Mark a city as lost: nothing runs there, and instances that its policy does not start elsewhere are refused."""
    city, policy = found.city, placement.on_city_loss
    complaints = [each for each in goal.blocks[placement.name] if each.where == city and each.rule == "onCityLoss"]
    if not complaints and (policy is None or policy.policy == "Stay"):
        change = "Set onCityLoss.policy to Move and name cities to start the instances elsewhere."
        message = f"{city} is lost; its instances wait for it."
        complaints = [Refusal(reasons.CITY_LOST, message, city, "onCityLoss", change)]
    for complaint in complaints:
        found.refuse(complaint, found.goal.desired)
    found.create, found.replace, found.keep = [], [], []


def _refuse_what_is_blocked(snapshot: Snapshot, workload: Workload, found: Sequence[Difference]) -> None:
    """Refuse every change for an unusable network or a pause, and new instances for an unavailable image."""
    block = unusable_networks(snapshot, workload.metadata.namespace, workload.spec.template)
    if block is None and workload.spec.paused:
        block = Refusal(reasons.PAUSED, "Rollout and scaling are paused.", change="Set spec.paused to false.")
    if block is not None:
        for each in found:
            if each.changes and not each.refused:
                each.refuse(block)
    for each in found:
        place = LOCATIONS.get(snapshot, each.location) if each.location else None
        images = images_of(
            workload.spec.template.spec,
            lambda name: MACHINE_IMAGES.get(snapshot, name),
            lambda name: LOCAL_MACHINE_IMAGES.get(snapshot, f"{workload.metadata.namespace}/{name}"),
            simulated=is_simulated(place),
        )
        if images.value is not None:
            each.boot_disks = sum(_gets_boot_disk(snapshot, each, view, images.value) for view in each.replace)
        elif each.wanted and not each.refused:
            each.refuse(images.refusals[0])


def _gets_boot_disk(snapshot: Snapshot, found: Difference, view: InstanceView, images: Images) -> bool:
    """Return True if the replacement of the instance would boot from a different disk."""
    spec = found.deployment.spec.template.spec
    volume = boot_volume(spec)
    present = CLAIMS.get(snapshot, f"{found.deployment.metadata.namespace}/{claim_name(view.name, volume)}")
    if not volume or present is None:
        return False
    disk = next(each.disk for each in spec.volumes if each.name == volume)
    assert disk is not None, "a machine boots from a disk"
    notes = present["metadata"].get("annotations") or {}
    wanted = populated(disk, images, found.deployment.metadata.namespace, block=True)
    return not disk.template.spec.retain and is_of_another_image(notes, wanted)


def _make(snapshot: Snapshot, candidates: CandidateNodes, namespace: str, found: Sequence[Difference]) -> None:
    """Check that quotas and nodes have room for the planned instances."""
    wishes = [(each, amounts) for each in found if (amounts := amounts_of(snapshot, each)) is not None]
    # Order matters: the first steps are checked while ready instances that are to be replaced still hold their nodes;
    # only then are those removed.
    for each, amounts in wishes:
        begin(snapshot, candidates, each, amounts)
    wishes = [(each, amounts) for each, amounts in wishes if not each.refused]
    for each, _ in wishes:
        remove(snapshot, candidates, each, each.going)
    for each, amounts, ordinals in grant(snapshot, namespace, wishes):
        placed = take_room(snapshot, candidates, each, amounts, ordinals)
        each.amounts, each.granted = amounts, ordinals
        each.placed = {pod.uid: node for pod, node in placed}


def _leaving(reads: CachedReads, goal: WorkloadGoal, existing: Sequence[WorkloadDeployment]) -> Iterator[Difference]:
    """Yield the differences of deployments that would be deleted entirely."""
    for deployment in existing:
        if deployment.metadata.name not in goal.children:
            found = difference(deployment, ())
            found.create, found.delete = [], _fleet(reads, deployment)
            yield found


def _nowhere(goal: WorkloadGoal) -> Iterator[CityPlan]:
    """Yield entries for placements, or parts of them, that match no city."""
    for name, blocks in goal.blocks.items():
        for block in blocks:
            if block.where not in goal.cities[name]:
                yield CityPlan("", refused=[Refused(block.reason, block.message, block.change)])


def _merged(found: Sequence[Difference]) -> list[CityPlan]:
    """Return one entry per city, in order of first appearance."""
    by_city: dict[str, CityPlan] = {}
    for each in found:
        more = each.as_plan()
        known = by_city.get(more.city, CityPlan(more.city))
        by_city[more.city] = CityPlan(
            more.city,
            known.create + more.create,
            known.replace + more.replace,
            known.delete + more.delete,
            known.keep + more.keep,
            known.moved + more.moved,
            _joined([*known.refused, *more.refused]),
            max(known.wave, more.wave),
            [*known.endings, *more.endings],
            known.boot_disks + more.boot_disks,
            known.stop + more.stop,
            known.start + more.start,
        )
    return list(by_city.values())


def _joined(refused: Sequence[Refused]) -> list[Refused]:
    """Merge refusals with the same reason, message and change, adding up their instances."""
    found: dict[tuple[str, str, str], Refused] = {}
    for each in refused:
        key = each.reason, each.message, each.change
        count = each.instances + (found[key].instances if key in found else 0)
        found[key] = msgspec.structs.replace(each, instances=count)
    return list(found.values())


# Checks that a rollout can take its first steps beside the instances that it may not delete yet.
#
# The final state of a plan may have room for everything while the way there does not: ready instances stay until enough
# other instances are ready (`maxUnavailable`), and hold their nodes until then. If the new instances need that room,
# the rollout deadlocks.


def begin(snapshot: Snapshot, candidates: CandidateNodes, found: Difference, amounts: ResourceList) -> None:
    """Remove the instances that a rollout deletes at once, and refuse those it must then create without room."""
    remove(snapshot, candidates, found, [view for view in found.going if not view.ready or view in found.delete])
    first = _first(found)
    if first and any(view.ready for view in found.replace):
        for pod, _ in take_room(snapshot, candidates, found, amounts, first):
            candidates.cluster.remove_pod(pod.uid)


def _first(found: Difference) -> list[int]:
    """Return the ordinals that must be ready before any ready instance may be deleted."""
    ready = {view.ordinal for view in (*found.keep, *found.replace) if view.ready}
    spare = len(ready) - (found.goal.desired - found.goal.limits.max_unavailable)
    if spare > 0:
        return []
    missing = [ordinal for ordinal in range(found.goal.desired) if ordinal not in ready]
    if not missing:  # no instance may be missing, so an extra one comes first
        return [found.goal.desired]
    return missing if found.goal.ordered else missing[: 1 - spare]
