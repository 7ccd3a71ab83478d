"""Locations for placement decisions, read from a snapshot."""

from __future__ import annotations

from collections.abc import Collection

from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.decide.placement import LocationView, place_of, ready_since
from tarmac.decide.scheduling import free_at
from tarmac.decide.snapshot.candidates import CandidateNodes
from tarmac.decide.snapshot.snapshot import LOCATIONS, Snapshot


def places_of(snapshot: Snapshot, candidates: CandidateNodes | None = None) -> list[LocationView]:
    """Return every Location; with its free capacity if `candidates` is given."""
    return [
        place_of(
            location, ready_since(location), free_at(candidates.cluster, location.metadata.name) if candidates else None
        )
        for location in LOCATIONS.all(snapshot)
    ]


def in_cities(snapshot: Snapshot, cities: Collection[str]) -> list[str]:
    """Return the names of the Locations of some cities."""
    found = LOCATIONS.all(snapshot)
    return [each.metadata.name for each in found if each.spec.topology.get(TOPOLOGY_CITY_CODE) in cities]


def city_of(snapshot: Snapshot, location: str) -> str:
    """Return the city of a Location; empty if it does not exist."""
    found = LOCATIONS.get(snapshot, location) if location else None
    return found.spec.topology.get(TOPOLOGY_CITY_CODE, "") if found else ""
