"""The runtime's contract, as the agent uses it and as the contract suite checks it.

It is CRI's model in Python's words: a *sandbox* is what a pod's containers share (kernel or namespaces, interfaces,
cgroup), a *container* runs an image in it. Every call is idempotent where CRI's is: stopping or removing what is gone
succeeds. Ids are the runtime's own. What identifies a sandbox or container across restarts of the agent are the labels
of `tarmac.runtimes.labels`, which the runtime keeps.

`events` tells that something about a pod changed: the agent looks again, unless it knows already. It may repeat itself,
and after a lost connection it starts with `None`, which means "look at everything".
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol


class RuntimeFault(Exception):
    """Root of a runtime's errors.

    RuntimeFault ─┬─ NotFound          there is no such sandbox, container or image
                  ├─ Unreachable       the runtime does not answer; nothing is known
                  └─ Refused           the runtime says no; the message is its own
                       └─ ImageRefused   the image cannot be had
    """


class NotFound(RuntimeFault):
    """There is no such sandbox, container or image."""


class Unreachable(RuntimeFault):
    """The runtime does not answer; whether the call took effect is not known."""


class Refused(RuntimeFault):
    """The runtime says no. The message is its own."""


class ImageRefused(Refused):
    """The image cannot be had."""


@dataclass(frozen=True, slots=True)
class Handler:
    """A way to run sandboxes, chosen by RuntimeClass. `own_kernel`: containers do not see the host's kernel."""

    name: str
    own_kernel: bool = False
    recursive_read_only_mounts: bool = False
    user_namespaces: bool = False


@dataclass(frozen=True, slots=True)
class RuntimeStatus:
    """What the runtime is, and whether it can work. `reason` and `message` explain a False.

    `default` is what runs sandboxes that name no handler. `strict_groups`: whether a container can be kept out of the
    groups that its image puts its user into; None when the runtime does not know the question.
    """

    name: str
    version: str
    ready: bool
    network_ready: bool
    handlers: tuple[Handler, ...]
    reason: str = ""
    message: str = ""
    default: Handler = Handler("")
    strict_groups: bool | None = None
    sandbox_image: str = ""  # what every sandbox is made from, if the runtime tells: never to be removed


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
class LinuxSecurity:
    """Who a process is and what it may. None and empty mean the runtime's default."""

    user: int | None = None
    username: str = ""
    group: int | None = None
    supplemental_groups: tuple[int, ...] = ()
    strict_groups: bool = False  # these, and none that the image adds
    privileged: bool = False
    read_only_root: bool = False
    no_new_privileges: bool = False
    add_capabilities: tuple[str, ...] = ()
    drop_capabilities: tuple[str, ...] = ()
    seccomp: Literal["RuntimeDefault", "Unconfined", "Localhost"] = "Unconfined"
    seccomp_path: str = ""
    masked_paths: tuple[str, ...] = ()  # exactly these: runtimes add none
    read_only_paths: tuple[str, ...] = ()
    host_network: bool = False
    host_pid: bool = False
    host_ipc: bool = False
    share_processes: bool = False
    target_container: str = ""  # its process namespace is joined (debugging)


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
    security: LinuxSecurity = LinuxSecurity()


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
    labels: Mapping[str, str] = field(default_factory=dict[str, str])
    annotations: Mapping[str, str] = field(default_factory=dict[str, str])
    log_path: str = ""
    stdin: bool = False
    stdin_once: bool = False
    tty: bool = False
    stop_signal: str = ""
    resources: Resources = Resources()
    security: LinuxSecurity = LinuxSecurity()


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


ContainerState = Literal["created", "running", "exited", "unknown"]


@dataclass(frozen=True, slots=True)
class Container:
    """A container as it is. What `containers` lists has no times, exit code, reason or paths; `container` has."""

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


@dataclass(frozen=True, slots=True)
class ExecResult:
    """What a command said."""

    stdout: bytes
    stderr: bytes
    exit_code: int


@dataclass(frozen=True, slots=True)
class Usage:
    """What a container or sandbox uses, at `at` (Unix seconds). `cpu` is core-seconds since its start."""

    id: str
    at: float
    cpu: float
    memory_working_set: int
    memory_rss: int = 0
    memory_usage: int = 0
    disk: int = 0  # bytes of the writable layer
    inodes: int = 0
    received: int = 0  # bytes; sandboxes only
    transmitted: int = 0
    processes: int = 0


@dataclass(frozen=True, slots=True)
class Image:
    """An image that is here."""

    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]
    size: int
    user: int | None = None
    username: str = ""
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Credentials:
    """What a registry wants to see. Never logged.

    They do not say for which registry they are: whoever hands them over has looked. containerd compares such a word
    with the host that it talks to, which behind a mirror is another, and then shows nothing.
    """

    username: str = ""
    password: str = ""
    identity_token: str = ""

    def __repr__(self) -> str:
        """Without the secret."""
        return f"Credentials({self.username!r})"


@dataclass(frozen=True, slots=True)
class Event:
    """Something about a container or sandbox of this pod changed; with its id when the runtime tells what."""

    pod_uid: str
    id: str = ""
    what: Literal["created", "started", "stopped", "deleted", ""] = ""


Progress = Callable[[int, int], None]  # bytes that are here, of bytes that are known to be needed


class Runtime(Protocol):
    """Runs sandboxes and their containers."""

    async def status(self) -> RuntimeStatus: ...

    async def run_sandbox(self, config: SandboxConfig, handler: str) -> str: ...
    async def stop_sandbox(self, id: str) -> None: ...
    async def remove_sandbox(self, id: str) -> None: ...
    async def sandboxes(self, pod_uid: str | None = None) -> Sequence[Sandbox]: ...
    async def sandbox(self, id: str) -> Sandbox: ...

    async def create_container(self, sandbox_id: str, config: ContainerConfig, sandbox: SandboxConfig) -> str: ...
    async def start_container(self, id: str) -> None: ...
    async def stop_container(self, id: str, grace: float) -> None: ...
    async def remove_container(self, id: str) -> None: ...
    async def containers(self, pod_uid: str | None = None) -> Sequence[Container]: ...
    async def container(self, id: str) -> Container: ...
    async def update_container(self, id: str, resources: Resources) -> None: ...
    async def reopen_log(self, id: str) -> None: ...

    async def exec(self, id: str, command: Sequence[str], timeout: float) -> ExecResult:
        """Run to its end. Raises TimeoutError."""
        ...

    async def exec_url(
        self, id: str, command: Sequence[str], *, tty: bool, stdin: bool, stdout: bool, stderr: bool
    ) -> str:
        """Where a stream to a new process can be had, once."""
        ...

    async def attach_url(self, id: str, *, tty: bool, stdin: bool, stdout: bool, stderr: bool) -> str: ...
    async def port_forward_url(self, sandbox_id: str, ports: Sequence[int]) -> str: ...

    async def container_usage(self) -> Sequence[Usage]: ...
    async def sandbox_usage(self) -> Sequence[Usage]: ...

    async def pull(
        self,
        image: str,
        credentials: Credentials | None,
        sandbox: SandboxConfig | None = None,
        progress: Progress | None = None,
    ) -> str:
        """The id of the image, once it is here. Raises ImageRefused.

        `progress` is told about once a second how far it is, if the runtime can tell.
        """
        ...

    async def image(self, name: str) -> Image | None: ...
    async def images(self) -> Sequence[Image]: ...
    async def remove_image(self, name: str) -> None: ...
    async def image_space(self) -> tuple[str, int, int]:
        """The mount point images are under, the bytes and the inodes they take."""
        ...

    def events(self) -> AsyncGenerator[Event | None]:
        """Changes as they come, for ever; None: look at everything."""
        ...

    async def close(self) -> None: ...
