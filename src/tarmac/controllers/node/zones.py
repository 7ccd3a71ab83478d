"""The nodes of each Location by readiness, and the rate limit of their NoExecute taints."""

from __future__ import annotations

from collections import Counter
from typing import Any

from tarmac.api.networking.names import LABEL_LOCATION, LABEL_ZONE
from tarmac.client.cache import Item
from tarmac.client.informer import Informer
from tarmac.controllers.nodefacts import read_node
from tarmac.decide.nodes import Disruption, disruption, pause


def zone_of(item: Item[Any]) -> str:
    """Return the Location of a node, otherwise its zone."""
    labels = item.metadata.labels or {}
    return labels.get(LABEL_LOCATION) or labels.get(LABEL_ZONE, "")


class _Zone:
    """The nodes of a Location, counted incrementally."""

    __slots__ = ("_counts", "last", "members")

    def __init__(self) -> None:
        self.members: dict[str, str] = {}  # node to readiness
        self.last = float("-inf")  # when the last node was tainted
        self._counts: Counter[str] = Counter()

    def put(self, name: str, readiness: str | None) -> None:
        """Record a node's readiness; None when it is deleted."""
        known = self.members.pop(name, None)
        if known is not None:
            self._counts[known] -= 1
        if readiness is not None:
            self.members[name] = readiness
            self._counts[readiness] += 1

    def state(self) -> Disruption:
        """Return the share of failing nodes as a disruption state."""
        return disruption(self._counts["True"], self._counts["False"], self._counts["Unknown"])


class Zones:
    """Locations by name."""

    def __init__(self, nodes: Informer[Any]) -> None:
        self._zones: dict[str, _Zone] = {}
        nodes.on_change(self._changed)

    def state(self, zone: str) -> Disruption:
        """Return the disruption state of the Location."""
        return self._zone(zone).state()

    def members(self, zone: str) -> list[str]:
        """Return the nodes of the Location."""
        return list(self._zone(zone).members)

    def taint_delay(self, zone: str, now: float) -> float | None:
        """Return the seconds until another node of the Location may be tainted; None while none may be."""
        known = self._zone(zone)
        seconds = pause(known.state(), len(known.members))
        return None if seconds is None else max(0.0, known.last + seconds - now)

    def tainted(self, zone: str, now: float) -> None:
        """Record that a node is being tainted now."""
        self._zone(zone).last = now

    def _zone(self, zone: str) -> _Zone:
        return self._zones.setdefault(zone, _Zone())

    def _changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        # A node that moves must not count for both Locations: their states decide about evictions.
        if old is not None and (new is None or zone_of(new) != zone_of(old)):
            self._zone(zone_of(old)).put(old.metadata.name, None)
        if new is not None:
            self._zone(zone_of(new)).put(new.metadata.name, read_node(new.raw).readiness)
