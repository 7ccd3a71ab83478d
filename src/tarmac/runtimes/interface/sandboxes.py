"""Sandboxes: what the containers of a pod share (kernel or namespaces, interfaces, cgroup).

Stopping or removing a sandbox that is gone succeeds. What a sandbox is known by across restarts of the agent are the
labels of `tarmac.runtimes.labels`, which the runtime keeps.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tarmac.runtimes.interface.security import BY_DEFAULT, LinuxSecurity


@dataclass(frozen=True, slots=True)
class PodIdentity:
    """Which pod a sandbox is for. `attempt` counts its sandboxes from 0."""

    namespace: str
    name: str
    uid: str
    attempt: int = 0


@dataclass(frozen=True, slots=True)
class PortMapping:
    """A port of the host that leads into the sandbox."""

    protocol: Literal["TCP", "UDP", "SCTP"]
    container_port: int
    host_port: int
    host_ip: str = ""


@dataclass(frozen=True, slots=True)
class SandboxConfig:
    """A sandbox to make."""

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
    classes: Mapping[str, str] = field(default_factory=dict[str, str])  # only for runtimes that speak of classes


@dataclass(frozen=True, slots=True)
class Sandbox:
    """A sandbox as it is. Times are Unix seconds. `addresses`: the first is the pod's own."""

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
    """Makes sandboxes and tells which there are. Each call raises RuntimeFault."""

    async def run_sandbox(self, config: SandboxConfig, handler: str) -> str:
        """Make and start one, by the handler of its RuntimeClass; its id. Raises Refused for an unknown handler."""
        ...

    async def stop_sandbox(self, id: str) -> None:
        """End its containers and give its network back."""
        ...

    async def remove_sandbox(self, id: str) -> None:
        """Forget it and its containers."""
        ...

    async def sandboxes(self, pod_uid: str | None = None) -> Sequence[Sandbox]:
        """All, or a pod's; without addresses."""
        ...

    async def sandbox(self, id: str) -> Sandbox:
        """One, with its addresses. Raises NotFound."""
        ...

    async def update_sandbox(self, id: str, classes: Mapping[str, str]) -> None:
        """Change those of the pod's classes that are named; all of them or nothing."""
        ...
