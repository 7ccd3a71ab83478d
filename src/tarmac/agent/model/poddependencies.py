"""Interfaces of the pod loop to other parts of the agent, so that each can be tested alone."""

from __future__ import annotations

import socket
from typing import Protocol

from tarmac.agent.model.allotment import PodAllotment
from tarmac.api.schema import JsonObject


class PodCgroups(Protocol):
    """A cgroup per pod, above those of its containers. All calls are idempotent."""

    def path(self, allotment: PodAllotment) -> str:
        """Return the pod's cgroup path in the runtime's form; the cgroup need not exist."""
        ...

    async def create(self, allotment: PodAllotment) -> str:
        """Create the pod's cgroup with all limits except the CPU quota; return its path in the runtime's form.

        The quota would slow down the start of a sandbox with its own kernel: `update` sets it once containers run.
        """
        ...

    async def update(self, allotment: PodAllotment) -> None:
        """Apply all limits of the pod to its cgroup, including the CPU quota."""
        ...

    async def remove(self, uid: str) -> None:
        """Remove the pod's cgroup; succeeds if there is none."""
        ...


class Connector(Protocol):
    """Dials a pod from a namespace that reaches its network."""

    async def __call__(self, pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
        """Return a connected, non-blocking TCP socket. Raises OSError, TimeoutError included."""
        ...


class Handlers(Protocol):
    """Returns the runtime handlers that passed this node's test."""

    def __call__(self) -> frozenset[str]: ...
