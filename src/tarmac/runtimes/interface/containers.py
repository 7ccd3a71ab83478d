"""Containers: each runs an image in a sandbox.

Stopping or removing a container that is gone succeeds. Creation and start are separate calls, so that after a crash in
between the next agent finds the container by its labels and starts it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from tarmac.api.schema import JsonObject
from tarmac.runtimes.interface.sandboxes import SandboxConfig
from tarmac.runtimes.interface.security import BY_DEFAULT, LinuxSecurity


@dataclass(frozen=True, slots=True)
class Resources:
    """Limits of a container, or of a sandbox. Zero means none, -1 for `cpu_quota` means explicitly none."""

    cpu_period: int = 0
    cpu_quota: int = 0
    cpu_shares: int = 0
    memory_limit: int = 0
    oom_score_adj: int = 0
    cpuset_cpus: str = ""
    cpuset_mems: str = ""
    unified: Mapping[str, str] = field(default_factory=dict[str, str])


@dataclass(frozen=True, slots=True)
class Mount:
    """A directory or file of the host, mounted into a container."""

    container_path: str
    host_path: str
    read_only: bool = False
    recursive_read_only: bool = False
    propagation: Literal["None", "HostToContainer", "Bidirectional"] = "None"


@dataclass(frozen=True, slots=True)
class Device:
    """A device of the host. `permissions` is made of r, w, m."""

    container_path: str
    host_path: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """Configuration of a container. `attempt` counts restarts from 0; `log_path` is relative to `log_directory`."""

    name: str
    attempt: int
    image: str  # as the runtime resolved it
    image_name: str  # as the user wrote it
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    working_dir: str = ""
    envs: tuple[tuple[str, str], ...] = ()
    mounts: tuple[Mount, ...] = ()
    devices: tuple[Device, ...] = ()
    cdi_devices: tuple[str, ...] = ()  # CDI names that the runtime resolves: example.com/gpu=0
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    log_path: str = ""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    stop_signal: str = ""
    resources: Resources = Resources()
    security: LinuxSecurity = BY_DEFAULT
    classes: Mapping[str, str] = field(default_factory=dict[str, str])  # only for runtimes that support classes


ContainerState = Literal["created", "running", "exited", "unknown"]


@dataclass(frozen=True, slots=True)
class RuntimeContainer:
    """State of a container. `containers` leaves times, exit code, reason and paths unset; `container` sets them.

    A running container that is stalled (a paused machine, or one stopped by a full disk) has its reason in both.
    """

    id: str
    sandbox_id: str
    name: str
    attempt: int
    state: ContainerState
    image: str
    image_id: str
    labels: Mapping[str, str]
    annotations: Mapping[str, str]
    created_at: float
    started_at: float = 0.0
    finished_at: float = 0.0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    log_path: str = ""
    user: tuple[int, int, tuple[int, ...]] | None = None
    classes: Mapping[str, str] = field(default_factory=dict[str, str])  # in effect, by type

    @property
    def stands_still(self) -> bool:
        """The container runs but makes no progress; `reason` tells why."""
        return self.state == "running" and bool(self.reason)


class Containers(Protocol):
    """Manages containers. Each call raises RuntimeFault."""

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Create a container; return its id."""
        ...

    async def start_container(self, id: str) -> None:
        """Start a container. Raises RuntimeRefused if it was started before."""
        ...

    async def stop_container(self, id: str, grace: float) -> None:
        """Stop a container, by force after `grace` seconds."""
        ...

    async def remove_container(self, id: str) -> None:
        """Remove a container, stopping it first if it runs."""
        ...

    async def containers(self, pod_uid: str | None = None) -> Sequence[RuntimeContainer]:
        """Return all containers, or those of a pod, without the fields that only `container` sets."""
        ...

    async def container(self, id: str) -> RuntimeContainer:
        """Return a container with all fields. Raises NotFound."""
        ...

    async def update_container(
        self, id: str, resources: Resources | None, classes: Mapping[str, str] | None = None
    ) -> None:
        """Change the limits of a running container, and the classes given in `classes`; all of them or none."""
        ...

    async def amend_spec(self, id: str, changes: JsonObject) -> None:
        """Change the OCI specification of a container that was not started yet, by a merge patch.

        Raises RuntimeRefused where the runtime does not support this.
        """
        ...

    async def reopen_log(self, id: str) -> None:
        """Reopen the log file after its rotation."""
        ...
