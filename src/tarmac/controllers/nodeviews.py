"""The views of all nodes, as decisions about addresses need them, kept up to date from the cache of Nodes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from tarmac.api.egress.names import Address, node_digits
from tarmac.api.schema import JsonObject
from tarmac.client.cache import Item
from tarmac.decide.egress.reading import node_addresses, node_view
from tarmac.decide.pooled.nodeview import NodeView


class NodeViews:
    """The views of all nodes, and the nodes' own addresses."""

    def __init__(self) -> None:
        self.views: dict[str, NodeView] = {}
        self.listeners: list[Callable[[], None]] = []  # called on relevant changes only: most changes are heartbeats
        self._addresses: dict[str, set[Address]] = {}
        self._digits: dict[str, str] = {}  # node digits in Forwarder names -> node name
        self._held: Counter[Address] = Counter()  # two nodes may report the same address

    def changed(self, old: Item[JsonObject] | None, new: Item[JsonObject] | None) -> None:
        """Handle a change of the cache."""
        item = new or old
        if item is None:
            return
        before = self.views.pop(item.key, None), self._addresses.pop(item.key, None)
        self._digits.pop(node_digits(item.key), None)
        if new is not None:
            self._digits[node_digits(new.key)] = new.key
            self.views[new.key] = node_view(new.object)
            self._addresses[new.key] = node_addresses(new.object, self.views[new.key])
        if before != (self.views.get(item.key), self._addresses.get(item.key)):
            # Counted, since two nodes may report one address: it stays taken while either does.
            self._held.subtract(before[1] or ())
            self._held.update(self._addresses.get(item.key, ()))
            for listener in self.listeners:
                listener()

    def by_digits(self, digits: str) -> NodeView | None:
        """Return the node of a Forwarder by the last part of the Forwarder's name."""
        return self.views.get(self._digits.get(digits, ""))

    def have(self, address: Address) -> bool:
        """Return True if any node has the address."""
        return self._held[address] > 0

    @property
    def addresses(self) -> set[Address]:
        """The addresses of all nodes."""
        return set().union(*self._addresses.values())
