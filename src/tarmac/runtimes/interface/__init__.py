"""The runtime's contract, as the agent uses it and the contract suite checks it, one module for each role.

    sandboxes       the environment shared by a pod's containers   streams   commands in containers, and streams to them
    containers      processes that run an image in a sandbox       usage     usage of sandboxes and containers
    images          the images of containers                       events    notifications of changes
    machineaccess   consoles, displays and power actions of virtual machines

`sandboxnetworks` is the opposite direction: interfaces that the agent provides to a driver without CNI.

The model is CRI's. Every call is idempotent where CRI's is: stopping or removing a sandbox or container that is gone
succeeds. Ids are the runtime's own. A user of one role depends on that role's protocol; `Runtime` combines all of them.
"""

from __future__ import annotations

from typing import Protocol

from tarmac.runtimes.interface.containers import (
    ContainerConfig,
    Containers,
    ContainerState,
    Device,
    Mount,
    Resources,
    RuntimeContainer,
)
from tarmac.runtimes.interface.errors import (
    ImageMismatch,
    ImageRefused,
    NotOffered,
    RuntimeFault,
    RuntimeObjectNotFound,
    RuntimeRefused,
    RuntimeUnreachable,
    TooManyStreams,
    WrongState,
)
from tarmac.runtimes.interface.events import EventSource, RuntimeEvent
from tarmac.runtimes.interface.images import Credentials, Image, Images, Progress
from tarmac.runtimes.interface.machineaccess import (
    NO_EXEC,
    NOT_A_MACHINE,
    ConsoleOptions,
    Machines,
    PowerAction,
    SessionOptions,
    SessionRecorder,
)
from tarmac.runtimes.interface.sandboxes import PodIdentity, PortMapping, RuntimeSandbox, SandboxConfig, Sandboxes
from tarmac.runtimes.interface.sandboxnetworks import Interfaces, NotConnected, WhyNotConnected
from tarmac.runtimes.interface.security import LinuxSecurity
from tarmac.runtimes.interface.status import Handler, RuntimeClasses, RuntimeClassType, RuntimeStatus
from tarmac.runtimes.interface.streams import (
    CommandStream,
    ExecResult,
    StreamClient,
    StreamOptions,
    Streams,
    TerminalSize,
)
from tarmac.runtimes.interface.usage import RuntimeUsage, UsageReports

__all__ = [
    "NOT_A_MACHINE",
    "NO_EXEC",
    "CommandStream",
    "ConsoleOptions",
    "ContainerConfig",
    "ContainerState",
    "Containers",
    "Credentials",
    "Device",
    "EventSource",
    "ExecResult",
    "Handler",
    "Image",
    "ImageMismatch",
    "ImageRefused",
    "Images",
    "Interfaces",
    "LinuxSecurity",
    "Machines",
    "Mount",
    "NotConnected",
    "NotOffered",
    "PodIdentity",
    "PortMapping",
    "PowerAction",
    "Progress",
    "Resources",
    "Runtime",
    "RuntimeClassType",
    "RuntimeClasses",
    "RuntimeContainer",
    "RuntimeEvent",
    "RuntimeFault",
    "RuntimeObjectNotFound",
    "RuntimeRefused",
    "RuntimeSandbox",
    "RuntimeStatus",
    "RuntimeUnreachable",
    "RuntimeUsage",
    "SandboxConfig",
    "Sandboxes",
    "SessionOptions",
    "SessionRecorder",
    "StreamClient",
    "StreamOptions",
    "Streams",
    "TerminalSize",
    "TooManyStreams",
    "UsageReports",
    "WhyNotConnected",
    "WrongState",
]


class Runtime(Sandboxes, Containers, Images, Streams, Machines, UsageReports, EventSource, Protocol):
    """Runs sandboxes and their containers."""

    async def status(self) -> RuntimeStatus:
        """Return name, version, readiness and handlers of the runtime. Raises RuntimeFault."""
        ...

    async def close(self) -> None:
        """Close connections; sandboxes and containers keep running."""
        ...
