"""Cached summaries of all nodes: readiness and Location.

A summary is kept until its Node changes, so reading all of them only decodes the Nodes that changed since the last
call.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from tarmac.api.conditions import holds
from tarmac.api.networking.names import LABEL_LOCATION
from tarmac.store.interface import Entry, Store


class NodeSummary(NamedTuple):
    """Name, readiness and Location of a node."""

    name: str
    ready: bool
    location: str  # empty when it has none


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
    """Summaries of all nodes in the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._known: dict[str, tuple[Entry, NodeSummary]] = {}

    def all(self) -> list[NodeSummary]:
        """Return the summaries ordered by name."""
        known: dict[str, tuple[Entry, NodeSummary]] = {}
        for entry in self._store.list("core/nodes").entries:
            before = self._known.get(entry.name)
            known[entry.name] = before if before is not None and before[0] is entry else (entry, _summary(entry))
        # A new table: entries of deleted Nodes go with the old one.
        self._known = known
        return [summary for _, summary in known.values()]


def _summary(entry: Entry) -> NodeSummary:
    node = _decode(entry.raw)
    conditions = (node.status and node.status.conditions) or ()
    ready = holds(conditions, "Ready")
    return NodeSummary(entry.name, ready, (node.metadata.labels or {}).get(LABEL_LOCATION, ""))
