"""The node's report as seen by the parts that it is made from, and that are therefore built before it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tarmac.api.schema import JsonObject
from tarmac.volumes.node import VolumeNode


class NodeStatusSource(Protocol):
    """Implemented by `NodeReporter`."""

    def node(self) -> JsonObject | None: ...
    def wake(self) -> None: ...


class NodeHub:
    """Passes queries to the reporter of the node, whose constructor gets this hub and opens it.

    `unregistered` returns the Node as it would be registered.
    """

    def __init__(self, name: str, unregistered: Callable[[], JsonObject]) -> None:
        self._name = name
        self._unregistered = unregistered
        self._report: NodeStatusSource | None = None

    def open(self, report: NodeStatusSource) -> None:
        """Pass queries to this reporter from now on."""
        self._report = report

    def wake(self) -> None:
        """Report soon: a value of the status has changed."""
        if self._report is not None:
            self._report.wake()

    def node(self) -> JsonObject:
        """Return the Node as the server has it, or as it would be registered."""
        return (self._report.node() if self._report else None) or self._unregistered()

    def addresses(self) -> list[str]:
        """Return the node's internal addresses."""
        reported: list[JsonObject] = (self.node().get("status") or {}).get("addresses") or []
        return [each["address"] for each in reported if each["type"] == "InternalIP"]

    def facts(self) -> VolumeNode:
        """Return the facts that volumes depend on."""
        node = self.node()
        labels, status = node["metadata"].get("labels") or {}, node.get("status") or {}
        return VolumeNode(self._name, labels, status.get("allocatable") or {})
