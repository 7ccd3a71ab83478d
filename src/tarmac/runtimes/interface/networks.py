"""How a sandbox gets its interfaces where the driver makes the sandbox itself.

A CRI runtime calls the node's CNI plugin, and the agent answers it. A driver that knows no CNI is handed `Interfaces`
and asks the agent directly. Both get the same answer, since the plugin's questions are answered by `Interfaces` too.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Protocol

from tarmac.api.networking.interfaces import AttachedInterface
from tarmac.runtimes.interface.sandboxes import PodIdentity


class WhyNotConnected(Enum):
    """What is wrong with a pod that cannot be connected."""

    UNKNOWN_POD = "unknown pod"
    NOT_YET = "not yet"
    BAD_INTERFACES = "bad interfaces"


class NotConnected(Exception):
    """The sandbox has no interfaces. The message says why; NOT_YET may be tried again."""

    def __init__(self, why: WhyNotConnected, message: str) -> None:
        super().__init__(message)
        self.why = why


class Interfaces(Protocol):
    """Connects sandboxes to the networks of their pods."""

    async def attach(self, sandbox_id: str, pod: PodIdentity, namespace: str) -> Sequence[AttachedInterface]:
        """Make the pod's interfaces in the network namespace at this path, once the rules about the pod are in force.

        Doing it again changes nothing, and what fails leaves nothing behind. Raises NotConnected, or what the kernel
        says.
        """
        ...

    async def detach(self, sandbox_id: str) -> None:
        """Take the interfaces away; those that are gone succeed."""
        ...

    def attached(self, sandbox_id: str) -> bool:
        """Whether the sandbox has interfaces."""
        ...
