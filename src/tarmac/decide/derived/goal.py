"""Computes the deployments a Workload should have now, from its placements and the existing places."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field

from tarmac.api.compute.names import LABEL_MOVED_FROM
from tarmac.api.compute.workload import Placement, Workload, WorkloadDeployment
from tarmac.decide.cityloss import Loss, loss_of, moves, next_step
from tarmac.decide.derived.deployments import Child, own_children, stand_ins
from tarmac.decide.placement import LocationView, by_city, cities_of
from tarmac.decide.rollout import desired_replicas
from tarmac.decide.verdict import Refusal

_MAX_CITY_INSTANCES = 100_000
_SOONEST = 0.1


@dataclass(slots=True)
class WorkloadGoal:
    """Deployments by name, the cities and refusals of each placement, and the time when time alone changes the goal."""

    children: dict[str, Child] = field(default_factory=dict[str, Child])
    cities: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    blocks: dict[str, tuple[Refusal, ...]] = field(default_factory=dict[str, tuple[Refusal, ...]])
    again: float | None = None

    def wake_in(self, seconds: float | None) -> None:
        """Schedule the next check in so many seconds, unless an earlier one is scheduled."""
        if seconds is not None:
            # Differences of times leave rounding errors such as 3e-14. A clock that counts from 1970 cannot advance by
            # that little, so waking for it would loop forever.
            seconds = max(seconds, _SOONEST)
            self.again = seconds if self.again is None else min(self.again, seconds)


def goal_of(
    workload: Workload,
    places: Collection[LocationView],
    existing: Iterable[WorkloadDeployment],
    now: float,
    everywhere: Callable[[], Iterable[WorkloadDeployment]] | None = None,
) -> WorkloadGoal:
    """Return the goal.

    `existing` are the Workload's deployments: instances that have moved already stay where they are.

    `everywhere` returns the deployments of all Workloads, for spreading moved instances; called only when a city is
    lost.
    """
    goal = WorkloadGoal()
    existing = list(existing)
    rooms: dict[str, int] | None = None
    here = by_city(places)
    of_placement: dict[str, list[WorkloadDeployment]] = {}
    for each in existing:
        of_placement.setdefault(each.spec.placement_name, []).append(each)
    for placement in workload.spec.placements:
        siblings = of_placement.get(placement.name, [])
        of_city = _by_city(siblings)
        verdict = cities_of(placement, places)
        cities = verdict.value or ()
        children = own_children(placement, (*cities, *_without_place(placement, cities, siblings, places)))
        blocks = list(verdict.refusals)
        for city in cities:
            own = of_city.get(city, ())
            loss = _loss(placement, city, own, here.get(city, ()))
            if loss is None:
                continue
            if loss.lost_since is not None and rooms is None:
                rooms = _rooms(places, everywhere() if everywhere else existing)
            moved = moves(placement.on_city_loss, loss, {} if loss.lost_since is None else rooms or {}, now)
            children += stand_ins(placement, city, moved.value or {})
            if moved.refusals and _housed(city, own):  # it has a Location, so none is missing
                blocks = [each for each in blocks if each.where != city]
            blocks += moved.refusals
            goal.wake_in(next_step(placement.on_city_loss, loss, now))
        goal.children.update((child.name(workload.metadata.name), child) for child in children)
        goal.cities[placement.name] = cities
        goal.blocks[placement.name] = tuple(blocks)
    return goal


def _without_place(
    placement: Placement,
    cities: Collection[str],
    siblings: Iterable[WorkloadDeployment],
    places: Collection[LocationView],
) -> list[str]:
    """Return cities without any Location left. Their deployments stay, since their instances may still be running."""
    served = {*cities, *(place.city for place in places)}
    own = (each for each in siblings if LABEL_MOVED_FROM not in each.metadata.labels and not placement.city_codes)
    return [each.spec.city_code for each in own if each.spec.city_code not in served]


def _by_city(deployments: Iterable[WorkloadDeployment]) -> dict[str, list[WorkloadDeployment]]:
    """Return the deployments relevant to each city: its own, and those that replace it elsewhere."""
    found: dict[str, list[WorkloadDeployment]] = {}
    for each in deployments:
        for city in {each.spec.city_code, each.metadata.labels.get(LABEL_MOVED_FROM, each.spec.city_code)}:
            found.setdefault(city, []).append(each)
    return found


def _loss(
    placement: Placement, city: str, siblings: Collection[WorkloadDeployment], places: Collection[LocationView]
) -> Loss | None:
    """Return the state of a city if it can matter to the placement; else None.

    Both collections need to hold only the entries of this city.
    """
    of_city = [each for each in siblings if each.metadata.labels.get(LABEL_MOVED_FROM) == city]
    standing = {each.spec.city_code: each.spec.scale_settings.min_replicas for each in of_city}
    if not standing and placement.on_city_loss is None and not _housed(city, siblings):
        return None
    return loss_of(city, _wanted(placement, city, siblings), places, standing)


def _housed(city: str, siblings: Iterable[WorkloadDeployment]) -> bool:
    """Return True if the city's own deployment has a Location."""
    return any(
        each.spec.city_code == city
        and LABEL_MOVED_FROM not in each.metadata.labels
        and each.status is not None
        and each.status.location is not None
        for each in siblings
    )


def _wanted(placement: Placement, city: str, siblings: Iterable[WorkloadDeployment]) -> int:
    own = (each for each in siblings if each.spec.city_code == city and LABEL_MOVED_FROM not in each.metadata.labels)
    replicas = next((each.spec.replicas for each in own), None)
    return desired_replicas(placement.scale_settings, replicas)


def _rooms(places: Iterable[LocationView], deployments: Iterable[WorkloadDeployment]) -> dict[str, int]:
    """Return how many more instances each ready city can take, given the number it should have already.

    This is no check of the nodes' capacity, which happens when pods are scheduled. It spreads moved instances: the
    emptiest city is filled first, and no city takes all instances when many Workloads lose a city at once.
    """
    rooms = {place.city: _MAX_CITY_INSTANCES for place in places if place.ready}
    for deployment in deployments:
        city, status = deployment.spec.city_code, deployment.status
        if city in rooms:
            wanted = status.desired_replicas if status else deployment.spec.scale_settings.min_replicas
            rooms[city] = max(0, rooms[city] - wanted)
    return rooms
