"""Tells if Locations are needed for the cities of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.networking.names import LABEL_LOCATION, TOPOLOGY_CITY_CODE
from tarmac.api.schema import JsonObject


def needs_locations(nodes: Sequence[JsonObject]) -> bool:
    """True if the city of a node is only known from its Location."""
    labels = [node["metadata"].get("labels") or {} for node in nodes]
    return any(LABEL_LOCATION in each and TOPOLOGY_CITY_CODE not in each for each in labels)
