"""Whether Locations have to be asked for the cities of nodes."""

from __future__ import annotations

from collections.abc import Sequence

from tarmac.api.networking.names import LABEL_LOCATION, TOPOLOGY_CITY_CODE
from tarmac.api.schema import JsonObject


def needs_locations(nodes: Sequence[JsonObject]) -> bool:
    """Whether only its Location tells the city of one of them."""
    labels = [node["metadata"].get("labels") or {} for node in nodes]
    return any(LABEL_LOCATION in each and TOPOLOGY_CITY_CODE not in each for each in labels)
