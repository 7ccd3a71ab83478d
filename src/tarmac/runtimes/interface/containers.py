"""Containers: each runs an image in a sandbox.

Stopping or removing a container that is gone succeeds. A container is made first and started later, so that an agent
that dies in between finds it again by its labels and starts it.
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
    """A folder or file of the host, as a container sees it."""

    container_path: str
    host_path: str
    read_only: bool = False
    recursive_read_only: bool = False
    propagation: Literal["None", "HostToContainer", "Bidirectional"] = "None"


@dataclass(frozen=True, slots=True)
class Device:
    """A device of the host. `permissions` out of r, w, m."""

    container_path: str
    host_path: str
    permissions: str = "rwm"


@dataclass(frozen=True, slots=True)
class ContainerConfig:
    """A container to make. `attempt` counts its restarts from 0; `log_path` is relative to the sandbox's directory."""

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
    cdi_devices: tuple[str, ...] = ()  # names by which the runtime finds what to add: example.com/gpu=0
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    log_path: str = ""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    stop_signal: str = ""
    resources: Resources = Resources()
    security: LinuxSecurity = BY_DEFAULT
    classes: Mapping[str, str] = field(default_factory=dict[str, str])  # only for runtimes that speak of classes


ContainerState = Literal["created", "running", "exited", "unknown"]


@dataclass(frozen=True, slots=True)
class Container:
    """A container as it is. What `containers` lists has no times, exit code, reason or paths; `container` has.

    One that runs and stands still (a machine that was paused, or whose disk is full) has the reason for it in either.
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
        """Whether it runs and does nothing; the reason says why."""
        return self.state == "running" and bool(self.reason)


class Containers(Protocol):
    """Makes containers and tells which there are. Each call raises RuntimeFault."""

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str:
        """Make one; its id."""
        ...

    async def start_container(self, id: str) -> None:
        """Run it. Raises Refused when it was started before."""
        ...

    async def stop_container(self, id: str, grace: float) -> None:
        """Ask it to end, and end it after `grace` seconds."""
        ...

    async def remove_container(self, id: str) -> None:
        """Forget it, ending it first if need be."""
        ...

    async def containers(self, pod_uid: str | None = None) -> Sequence[Container]:
        """All, or a pod's; without what only `container` tells."""
        ...

    async def container(self, id: str) -> Container:
        """One, with everything. Raises NotFound."""
        ...

    async def update_container(
        self, id: str, resources: Resources | None, classes: Mapping[str, str] | None = None
    ) -> None:
        """Change its limits while it runs, and those of its classes that are named; all of it or nothing."""
        ...

    async def amend_spec(self, id: str, changes: JsonObject) -> None:
        """Change the OCI specification of a container that was not started yet, by a merge patch.

        Raises Refused where the runtime has no way to do so.
        """
        ...

    async def reopen_log(self, id: str) -> None:
        """Go on writing under the same name, after the file was moved away."""
        ...
