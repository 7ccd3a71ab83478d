"""The cities a placement selects, and the Location of a city that gets the deployment.

A placement selects places in one of four ways: by city code, by an expression, by name or by topology keys. Each way
matches Locations; the cities of those Locations each get a deployment. Cities named by code are selected even while no
Location can serve them: their deployments wait, with a reason.

Results depend on the set of places, never on the order in which they are listed.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from tarmac.api.compute.constraint import Constraint, ConstraintError, compile_constraint
from tarmac.api.compute.workload import Placement
from tarmac.api.conditions import find, holds
from tarmac.api.networking.location import Location
from tarmac.api.networking.names import LABEL_LOCATION, TOPOLOGY_CITY_CODE
from tarmac.base.clock import parse_rfc3339
from tarmac.base.selectors import LabelMatcher
from tarmac.decide import reasons
from tarmac.decide.verdict import Refusal, Verdict


@dataclass(frozen=True, slots=True)
class LocationView:
    """The view of a Location for decisions. `since` is the time when it last became ready or ceased to be."""

    name: str
    topology: Mapping[str, str]
    ready: bool = True
    since: float = 0.0
    free: Mapping[str, int] = field(default_factory=dict[str, int])  # unrequested amounts
    has_nodes: bool = True

    @property
    def city(self) -> str:
        """The place's city."""
        return self.topology.get(TOPOLOGY_CITY_CODE, "")


def ready_since(location: Location) -> float:
    """Return the time when a Location became ready or stopped being ready; 0 when unknown."""
    ready = find(location.status and location.status.conditions, "Ready")
    return parse_rfc3339(ready.last_transition_time) if ready and ready.last_transition_time else 0.0


def place_of(location: Location, since: float = 0.0, free: Mapping[str, int] | None = None) -> LocationView:
    """Return the place of a Location object; its condition tells if it is ready."""
    ready = holds(location.status and location.status.conditions, "Ready")
    has_nodes = location.status is None or location.status.nodes > 0
    return LocationView(location.metadata.name, location.spec.topology, ready, since, free or {}, has_nodes)


def cities_of(placement: Placement, places: Collection[LocationView]) -> Verdict[tuple[str, ...]]:
    """Return the cities that get a deployment each: as written for city codes, otherwise in alphabetical order.

    Refusals name cities without a usable Location and Locations that do not exist; they may accompany a value.
    """
    if placement.city_codes:
        cities = tuple(dict.fromkeys(placement.city_codes))
        by_its_city = by_city(places)
        # Every place of a named city is selected: matching them again would cost cities times cities.
        unserved = [_best(city, by_its_city.get(city, ()), by_its_city) for city in cities]
        return Verdict(cities, tuple(verdict.refusals[0] for verdict in unserved if not verdict.decided))
    missing = _missing_names(placement, places)
    cities = tuple(sorted({place.city for place in _matching(placement, places)} - {""}))
    if cities:
        return Verdict(cities, missing)
    return Verdict(None, missing or (_nothing_matches(placement, places),))


def by_city(places: Iterable[LocationView]) -> dict[str, list[LocationView]]:
    """Return the places of each city."""
    found: dict[str, list[LocationView]] = {}
    for place in places:
        found.setdefault(place.city, []).append(place)
    return found


def location_for(placement: Placement, city: str, places: Mapping[str, Collection[LocationView]]) -> Verdict[str]:
    """Return the Location of the city for the deployment: ready, with the most free capacity, then first by name.

    In a fallback city for a lost one, every Location is a candidate. `places` are those of every city.
    """
    here = places.get(city, ())
    chosen = _matching(placement, here)
    return _best(city, here if not chosen and _is_fallback(placement, city) else chosen, places)


def _best(
    city: str, candidates: Collection[LocationView], places: Mapping[str, Collection[LocationView]]
) -> Verdict[str]:
    if not places:
        change = "Create a Location with this city code."
        return Verdict(None, (Refusal(reasons.NO_LOCATIONS, "No Locations exist.", city, "places", change),))
    usable = [place for place in candidates if place.ready]
    passed_over = tuple(_not_ready(place) for place in sorted(candidates, key=_by_name) if not place.ready)
    if not usable:
        return Verdict(None, (_no_candidate(city, candidates), *passed_over))
    return Verdict(min(usable, key=_emptiest_first).name, passed_over)


def _matching(placement: Placement, places: Collection[LocationView]) -> list[LocationView]:
    """Return the places that the placement selects."""
    if placement.selector is not None:
        return _satisfying(placement.selector.constraint, places)
    if placement.locations:
        names = {reference.name for reference in placement.locations}
        return [place for place in places if place.name in names]
    if placement.location_selector is not None:
        selector = LabelMatcher.from_object(msgspec.to_builtins(placement.location_selector))
        return [place for place in places if selector.matches(place.topology)]
    return [place for place in places if place.city in placement.city_codes]


def _is_fallback(placement: Placement, city: str) -> bool:
    return placement.on_city_loss is not None and city in placement.on_city_loss.cities


def _satisfying(constraint: str, places: Collection[LocationView]) -> list[LocationView]:
    try:
        matches = compile_constraint(constraint)
    except ConstraintError:
        return []  # rejected at admission; a stored one that this server cannot parse matches nothing
    return [place for place in places if _is_meant(matches, place)]


def _is_meant(matches: Constraint, place: LocationView) -> bool:
    """Return True if the place matches. A constraint that cannot be evaluated for a place does not match it."""
    try:
        return matches(place.topology)
    except ConstraintError:
        return False


def _by_name(place: LocationView) -> str:
    return place.name


def _emptiest_first(place: LocationView) -> tuple[int, int, str]:
    return -place.free.get("cpu", 0), -place.free.get("memory", 0), place.name


def _missing_names(placement: Placement, places: Collection[LocationView]) -> tuple[Refusal, ...]:
    known = {place.name for place in places}
    return tuple(
        Refusal(
            reasons.LOCATION_NOT_FOUND,
            f"Location {reference.name} does not exist.",
            reference.name,
            "places",
            f"Create Location {reference.name}, or remove it from the placement.",
        )
        for reference in placement.locations
        if reference.name not in known
    )


def _nothing_matches(placement: Placement, places: Collection[LocationView]) -> Refusal:
    """Return the refusal of a placement without a match, with the cause."""
    if not places:
        change = "Create a Location that the placement matches."
        return Refusal(reasons.NO_LOCATIONS, "No Locations exist.", rule="places", change=change)
    message = f"None of the {len(places)} Locations matches placement {placement.name}{_failing(placement, places)}."
    names = ", ".join(sorted(place.name for place in places)[:5])
    change = f"Change the placement so that it matches a Location that exists (such as {names}), or create one."
    return Refusal(reasons.NO_MATCHING_LOCATIONS, message, rule="places", change=change)


def _failing(placement: Placement, places: Collection[LocationView]) -> str:
    """Describe the error of a constraint that this server cannot parse, or cannot evaluate for a place."""
    if placement.selector is None:
        return ""
    try:
        matches = compile_constraint(placement.selector.constraint)
    except ConstraintError as error:  # for example stored by a server with CEL
        return f", because its constraint cannot be read: {error}"
    for place in sorted(places, key=_by_name):
        try:
            matches(place.topology)
        except ConstraintError as error:
            return f", because its constraint has no answer for {place.name}: {error}"
    return ""


def _no_candidate(city: str, candidates: Collection[LocationView]) -> Refusal:
    if not candidates:
        message, change = f"No Location is in {city}.", f"Create a Location with city code {city}."
    else:
        message, change = f"No Location in {city} is ready.", _revival(candidates)
    return Refusal(reasons.NO_CANDIDATE_LOCATIONS, message, city, "places", change)


def _not_ready(place: LocationView) -> Refusal:
    message = f"Location {place.name} {'is not ready' if place.has_nodes else 'has no node'}."
    return Refusal(reasons.LOCATION_NOT_READY, message, place.name, "ready", _revival([place]))


def _revival(places: Collection[LocationView]) -> str:
    """Return the change that makes one of these places ready."""
    with_nodes = sorted(place.name for place in places if place.has_nodes)
    if with_nodes:
        return f"Bring a node of {' or '.join(with_nodes)} back to ready."
    name = min(place.name for place in places)
    return f"Add a node to Location {name}: one with the label {LABEL_LOCATION}={name}."
