"""Locations as decisions see them, read from a world."""

from __future__ import annotations

from collections.abc import Collection

from tarmac.api.networking.names import TOPOLOGY_CITY_CODE
from tarmac.decide.explain.stage import Stage
from tarmac.decide.explain.world import LOCATIONS, World
from tarmac.decide.placement import Place, place_of, ready_since
from tarmac.decide.scheduling import free_at


def places_of(world: World, stage: Stage | None = None) -> list[Place]:
    """Every Location; with what is free there, when there is a stage to count it on."""
    return [
        place_of(location, ready_since(location), free_at(stage.cluster, location.metadata.name) if stage else None)
        for location in LOCATIONS.all(world)
    ]


def in_cities(world: World, cities: Collection[str]) -> list[str]:
    """The names of the Locations of some cities."""
    found = LOCATIONS.all(world)
    return [each.metadata.name for each in found if each.spec.topology.get(TOPOLOGY_CITY_CODE) in cities]


def city_of(world: World, location: str) -> str:
    """The city of a Location; empty when there is none of that name."""
    found = LOCATIONS.get(world, location) if location else None
    return found.spec.topology.get(TOPOLOGY_CITY_CODE, "") if found else ""
