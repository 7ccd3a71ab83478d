"""What the pod loop needs from the rest of the agent, so that each part can be tested without the others."""

from __future__ import annotations

import socket
from typing import Protocol

from tarmac.agent.model.allotment import PodAllotment
from tarmac.api.schema import JsonObject


class PodCgroups(Protocol):
    """A cgroup per pod, above those of its containers. Every call may be repeated."""

    def path(self, allotment: PodAllotment) -> str:
        """The pod's cgroup as runtimes take it, whether it is there or not."""
        ...

    async def create(self, allotment: PodAllotment) -> str:
        """Make the pod's cgroup with all its limits but the CPU quota; its path as runtimes take it.

        The quota would slow the start of a sandbox with its own kernel: `update` sets it, once containers run.
        """
        ...

    async def update(self, allotment: PodAllotment) -> None:
        """Put every limit of the pod on its cgroup, the CPU quota included."""
        ...

    async def remove(self, uid: str) -> None:
        """Take the pod's cgroup away; succeeds when there is none."""
        ...


class Connector(Protocol):
    """Dials a pod from where its network can be reached."""

    async def __call__(self, pod: JsonObject, address: str, port: int, timeout: float) -> socket.socket:
        """A connected, non-blocking TCP socket. Raises OSError, TimeoutError included."""
        ...


class Handlers(Protocol):
    """The runtime handlers that this node has proved to work."""

    def __call__(self) -> frozenset[str]: ...
