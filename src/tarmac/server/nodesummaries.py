"""The little that is asked of every node again and again: whether it is ready, and in which Location it is.

What was read of a Node is kept for as long as the object stays the same, so that looking at all of them costs no more
than what has changed since the last time.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tarmac.api.conditions import holds
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.store.interface import Entry, Store


class NodeSummary(NamedTuple):
    """A node at a glance."""

    name: str
    ready: bool
    location: str  # empty when it is in none


class _Metadata(msgspec.Struct):
    labels: dict[str, str] | None = None


class _Condition(msgspec.Struct):
    type: str = ""
    status: str = ""


class _Status(msgspec.Struct):
    conditions: list[_Condition] | None = None


class _Node(msgspec.Struct):
    metadata: _Metadata
    status: _Status | None = None


_decode = msgspec.json.Decoder(_Node).decode


class NodeSummaries:
    """Of all nodes that the store has."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[Entry, NodeSummary]] = {}

    def all(self) -> list[NodeSummary]:
        """In the order of their names."""
        known: dict[str, tuple[Entry, NodeSummary]] = {}
        for entry in self._store.list("core/nodes").entries:
            before = self._known.get(entry.name)
            known[entry.name] = before if before is not None and before[0] is entry else (entry, _summary(entry))
        self._known = known
        return [summary for _, summary in known.values()]


def _summary(entry: Entry) -> NodeSummary:
    node = _decode(entry.raw)
    conditions = (node.status and node.status.conditions) or ()
    ready = holds(conditions, "Ready")
    return NodeSummary(entry.name, ready, (node.metadata.labels or {}).get(LABEL_LOCATION, ""))
