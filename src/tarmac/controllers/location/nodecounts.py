"""The nodes of every Location, counted and summed incrementally, so that a query costs the same at any size."""

from __future__ import annotations

from collections import Counter
from typing import Any, NamedTuple

from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.base.quantity import Format, Quantity
from tarmac.client.cache import Item
from tarmac.client.informer import Informer
from tarmac.controllers.nodefacts import read_node

_BINARY = ("memory", "storage", "hugepages-")


class _Node(NamedTuple):
    location: str
    readiness: str
    offers: dict[str, int]  # in nanos


class NodeCounts:
    """The nodes of one Location."""

    def __init__(self) -> None:
        self._readiness: Counter[str] = Counter()
        self._offered: Counter[str] = Counter()

    def count(self, readiness: str) -> int:
        """Return the number of nodes with readiness True, False or Unknown."""
        return self._readiness[readiness]

    def offered(self) -> dict[str, Quantity]:
        """Return the allocatable resources of all ready nodes."""
        return {name: _quantity(name, nanos) for name, nanos in sorted(self._offered.items()) if nanos}

    def step(self, node: _Node, change: int) -> None:
        """Add or remove a node: `change` is 1 or -1."""
        self._readiness[node.readiness] += change
        if node.readiness == "True":
            for name, nanos in node.offers.items():
                self._offered[name] += change * nanos


class NodesByLocation:
    """Nodes by Location."""

    def __init__(self, nodes: Informer[Any]) -> None:
        self._known: dict[str, _Node] = {}
        self._locations: dict[str, NodeCounts] = {}
        nodes.on_change(self._changed)

    def of(self, location: str) -> NodeCounts:
        """Return the nodes of a Location; empty when it has none."""
        return self._locations.get(location) or NodeCounts()

    def _changed(self, old: Item[Any] | None, new: Item[Any] | None) -> None:
        # By the values that were added, not by those of `old`: both must cancel exactly.
        if old is not None and (known := self._known.pop(old.metadata.name, None)) is not None:
            self._locations[known.location].step(known, -1)
        if new is not None and (node := _node(new)).location:
            self._known[new.metadata.name] = node
            self._locations.setdefault(node.location, NodeCounts()).step(node, 1)


def location_of(item: Item[Any]) -> tuple[str, ...]:
    """Index: nodes by their Location."""
    name = (item.metadata.labels or {}).get(LABEL_LOCATION)
    return (name,) if name else ()


def _node(item: Item[Any]) -> _Node:
    facts = read_node(item.raw)
    location = (item.metadata.labels or {}).get(LABEL_LOCATION, "")
    offers = {name: Quantity.parse(amount).nanos for name, amount in (facts.status.allocatable or {}).items()}
    return _Node(location, facts.readiness, offers)


def _quantity(name: str, nanos: int) -> Quantity:
    binary = any(part in name for part in _BINARY)
    return Quantity(nanos, Format.BINARY_SI if binary else Format.DECIMAL_SI)
