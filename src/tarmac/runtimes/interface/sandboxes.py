"""Sandboxes: the environment that the containers of a pod share (kernel or namespaces, interfaces, cgroup).

Stopping or removing a sandbox that is gone succeeds. Across restarts of the agent, a sandbox is identified by the
labels of `tarmac.runtimes.labels`, which the runtime stores.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tarmac.runtimes.interface.security import BY_DEFAULT, LinuxSecurity


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """The pod of a sandbox. `attempt` counts the pod's sandboxes from 0."""

    namespace: str
    name: str
    uid: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class PortMapping:
    """A port of the host that is forwarded to the sandbox."""

    protocol: Literal["TCP", "UDP", "SCTP"]
    container_port: int
    host_port: int
    host_ip: str = ""


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """Configuration of a sandbox."""

    pod: PodIdentity
    hostname: str
    log_directory: str
    cgroup_parent: str
    dns_servers: tuple[str, ...] = ()
    dns_searches: tuple[str, ...] = ()
    dns_options: tuple[str, ...] = ()
    ports: tuple[PortMapping, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    sysctls: Mapping[str, str] = field(default_factory=dict[str, str])
    security: LinuxSecurity = BY_DEFAULT
    classes: Mapping[str, str] = field(default_factory=dict[str, str])  # only for runtimes that support classes


@dataclass(frozen=True, slots=True)
class RuntimeSandbox:
    """State of a sandbox. Times are Unix seconds. The first of `addresses` is the pod's primary address."""

    id: str
    pod: PodIdentity
    ready: bool
    created_at: float
    handler: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    addresses: tuple[str, ...] = ()  # only from `sandbox`
    classes: Mapping[str, str] = field(default_factory=dict[str, str])  # in effect, by type; only from `sandbox`


class Sandboxes(Protocol):
    """Manages sandboxes. Each call raises RuntimeFault."""

    async def run_sandbox(self, config: SandboxConfig, handler: str) -> str:
        """Create and start a sandbox; return its id. Raises RuntimeRefused for an unknown handler."""
        ...

    async def stop_sandbox(self, id: str) -> None:
        """Stop the sandbox's containers and release its network."""
        ...

    async def remove_sandbox(self, id: str) -> None:
        """Remove the sandbox and its containers."""
        ...

    async def sandboxes(self, pod_uid: str | None = None) -> Sequence[RuntimeSandbox]:
        """Return all sandboxes, or those of a pod, without addresses."""
        ...

    async def sandbox(self, id: str) -> RuntimeSandbox:
        """Return a sandbox with its addresses. Raises NotFound."""
        ...

    async def update_sandbox(self, id: str, classes: Mapping[str, str]) -> None:
        """Change the pod's classes given in `classes`; all of them or none."""
        ...
