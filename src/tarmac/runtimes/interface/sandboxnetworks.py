"""Interfaces for sandboxes of drivers without CNI.

A CRI runtime calls the node's CNI plugin, which calls the agent. A driver without CNI gets `Interfaces` and calls the
agent directly. Both give the same result, since the plugin's requests are served by `Interfaces` too.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.runtimes.interface.sandboxes import PodIdentity


class WhyNotConnected(Enum):
    """Reasons why a pod cannot be connected."""

    UNKNOWN_POD = "unknown pod"
    NOT_YET = "not yet"
    BAD_INTERFACES = "bad interfaces"


class NotConnected(Exception):
    """The sandbox has no interfaces. The message tells why; NOT_YET may be retried."""

    def __init__(self, why: WhyNotConnected, message: str) -> None:
        super().__init__(message)
        self.why = why


class Interfaces(Protocol):
    """Connects sandboxes to the networks of their pods."""

    async def attach(self, sandbox_id: str, pod: PodIdentity, namespace: str) -> Sequence[AttachedInterface]:
        """Create the pod's interfaces in the network namespace at this path, once the rules for the pod are in force.

        Idempotent; a failed call leaves no interfaces behind. Raises NotConnected, and errors of the kernel.
        """
        ...

    async def detach(self, sandbox_id: str) -> None:
        """Remove the interfaces; succeeds if they are already gone."""
        ...

    def attached(self, sandbox_id: str) -> bool:
        """Tell if the sandbox has interfaces."""
        ...
