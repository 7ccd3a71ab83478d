"""What the node's API needs from the rest of the agent."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from tarmac.api.schema import JsonObject


class Pods(Protocol):
    """The pods of this node."""

    def pods(self) -> Sequence[JsonObject]:
        """Every pod bound here, with its status as of now."""
        ...

    def find(self, namespace: str, name: str, uid: str | None = None) -> JsonObject | None: ...

    def container_id(self, pod: JsonObject, container: str, previous: bool = False) -> str | None:
        """The runtime's id of a container, or of the one before it."""
        ...

    def log_path(self, pod: JsonObject, container: str, previous: bool = False) -> Path | None: ...


class Connect(Protocol):
    """Dials a pod from where its network can be reached."""

    async def __call__(self, pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
        """A connected, non-blocking TCP socket. Raises OSError, TimeoutError included."""
        ...


class NodeFigures(Protocol):
    """What the node and its pods use."""

    async def summary(self) -> JsonObject:
        """As `/stats/summary` shows it."""
        ...

    async def metrics(self) -> str:
        """The agent's own metrics in Prometheus' text format."""
        ...
