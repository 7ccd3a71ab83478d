"""Interfaces of the agent that the node's API depends on."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tarmac.api.schema import JsonObject


class Pods(Protocol):
    """The pods of this node."""

    def pods(self) -> Sequence[JsonObject]:
        """Return all pods bound here with their current status."""
        ...

    def find(self, namespace: str, name: str, uid: str | None = None) -> JsonObject | None: ...

    def container_id(self, pod: JsonObject, container: str, previous: bool = False) -> str | None:
        """Return the runtime's id of a container or of its previous attempt."""
        ...

    def log_path(self, pod: JsonObject, container: str, previous: bool = False) -> Path | None: ...


class Connect(Protocol):
    """Dials a pod from a namespace that reaches its network."""

    async def __call__(self, pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
        """Return a connected, non-blocking TCP socket. Raises OSError, TimeoutError included."""
        ...


class NodeMetrics(Protocol):
    """Resource usage of the node and its pods."""

    async def summary(self) -> JsonObject:
        """Return the content of `/stats/summary`."""
        ...

    async def metrics(self) -> str:
        """Return the agent's own metrics in Prometheus' text format."""
        ...
