"""Taking the steps of a plan, and telling what came of them.

`StepExecutor` does one pod's steps in order. What fails is told as an event and, for a container, as the reason it
waits; the pod is asked about again later. Starting stops at the first container whose image is still being pulled, so
that containers start in the order they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from pathlib import Path

from tarmac.agent.cgroups.hierarchy import CgroupError
from tarmac.agent.containers.configs import ContainerToMake
from tarmac.agent.containers.hooks import HookFailed
from tarmac.agent.containers.identity import without_ids
from tarmac.agent.containers.images import Pulling, Unavailable
from tarmac.agent.containers.sandboxes import sandbox_config
from tarmac.agent.containers.security import SecurityRefused
from tarmac.agent.environment.hosts import HostnameTooLong
from tarmac.agent.environment.resolving import read_resolv_conf, resolving
from tarmac.agent.environment.variables import ConfigMissing
from tarmac.agent.model.allotment import NotGiven
from tarmac.agent.model.backoff import BackOffs
from tarmac.agent.model.classes import Classes, ClassRequest, RunningContainer
from tarmac.agent.model.pod import Pod
from tarmac.agent.model.runtimestate import PodRuntimeState
from tarmac.agent.pods.dependencies import PodDependencies
from tarmac.agent.pods.podactions import MakeSandbox, Resize, Start
from tarmac.api.kubernetes.runtimeclasses import MACHINE_CLASS
from tarmac.api.schema import JsonObject
from tarmac.base.log import log
from tarmac.runtimes.interface import (
    NO_EXEC,
    ContainerConfig,
    Image,
    NotFound,
    Runtime,
    RuntimeFault,
    RuntimeRefused,
    Sandbox,
    SandboxConfig,
)
from tarmac.volumes.claims import is_machine
from tarmac.volumes.interface import MountedVolume, VolumeError

_log = log("pods")


class StepFailed(Exception):
    """A step of the pod as a whole did not work; what there is to say has been said."""


class StepExecutor:
    """Does what was decided about one pod."""

    def __init__(self, tools: PodDependencies, back_offs: BackOffs, wake: Callable[[], None]) -> None:
        self.waiting: dict[str, tuple[str, str]] = {}
        """Why containers have not started: reason and message."""
        self.applied: dict[str, JsonObject] = {}
        """The resources that running containers were given."""
        self.classed: dict[str, Classes] = {}
        """The classes that running containers were put into."""
        self.ask_again: float | None = None
        self._tools = tools
        self._back_offs = back_offs
        self._wake = wake
        self._volumes: Mapping[str, MountedVolume] | None = None
        self._cgroup: str | None = None
        self._shared: tuple[Pod, SandboxConfig] | None = None
        self._quota_set = False
        self._not_before: dict[str, float] = {}
        self._stale = False
        self._outdated: set[str] = set()  # volumes that a machine has as they were

    def out_of_date(self) -> None:
        """What containers wait for may be there, and what volumes show may have changed."""
        self._not_before.clear()
        self._stale = True

    async def refresh(self, pod: Pod, seen: PodRuntimeState) -> None:
        """Bring files projected from objects up to date, if they are not."""
        if not self._stale:
            return
        self._stale = False
        try:
            changed = await self._tools.volumes.refresh(pod.raw)
        except VolumeError as error:
            self._tell_volume(pod, error)
            return
        if (
            is_machine(pod.raw) and seen.running
        ):  # one that is yet to start, while its image comes, has them as they are
            self._tell_not_updated(pod, changed)

    def _tell_not_updated(self, pod: Pod, changed: Set[str]) -> None:
        """A machine has the files as a disk, as they were at its start. Said once for each start."""
        for volume in sorted(changed - self._outdated):
            message = f'Volume "{volume}" has changed; the machine sees it when it is restarted'
            self._tools.recorder.event(pod.reference, "Normal", "VolumeNotUpdated", message)
        self._outdated |= changed

    def adopt(self, seen: PodRuntimeState, promised: Mapping[str, JsonObject], classes: Mapping[str, Classes]) -> None:
        """Containers that ran before the agent did have what they were promised then."""
        for container in seen.running:
            if container.name in promised:
                self.applied.setdefault(container.name, promised[container.name])
                self.classed.setdefault(container.name, classes.get(container.name, {}))

    # --- the pod as a whole -----------------------------------------------------------------------------------------

    async def make_sandbox(self, pod: Pod, action: MakeSandbox) -> str:
        """Everything containers share; the sandbox's id. Raises StepFailed."""
        if action.replaces:
            message = "Pod sandbox changed, it will be killed and re-created."
            self._tools.recorder.event(pod.reference, "Normal", "SandboxChanged", message)
        if not is_machine(pod.raw):
            # A machine's disk begins with its image, so its volumes come after that; its sandbox needs none of them.
            await self._prepare(pod)
        self._quota_set = False
        try:
            handler = self._tools.handler(pod)
            config = await self._sandbox_config(pod, action.attempt)
            Path(config.log_directory).mkdir(parents=True, exist_ok=True)
            self._tools.images.expect(pod, handler)
            return await self._tools.runtime.run_sandbox(config, handler)
        except (RuntimeFault, ConfigMissing, HostnameTooLong, OSError) as error:
            await self._tell_no_sandbox(pod, error)
            raise StepFailed from error

    async def set_quota(self, pod: Pod) -> None:
        """Once containers run, the pod may no longer take more processor than it has."""
        if self._quota_set:
            return
        try:
            await self._tools.cgroups.update(self._tools.allocator.allot(pod))
            self._quota_set = True
        except CgroupError as error:
            _log.warning("limits of a pod not set", pod=pod.key, error=str(error))
            self.ask(self._tools.clock.monotonic() + self._tools.settings.retry)

    async def release(self, uid: str) -> None:
        """Give back what was made for a pod that is over. Raises VolumeError, and what the cgroups raise."""
        await self._tools.volumes.unmount(uid)
        self._volumes = None
        await self._tools.cgroups.remove(uid)
        self._cgroup = None
        self._tools.allocator.release(uid)
        self._tools.classes.forget(uid)

    async def _prepare(self, pod: Pod) -> Mapping[str, MountedVolume]:
        """Folders and volumes. Raises StepFailed."""
        if self._volumes is None:
            self._tools.paths.home(pod.uid).mkdir(parents=True, exist_ok=True, mode=0o750)
            try:
                self._volumes = await self._tools.volumes.mount(pod.raw)
            except VolumeError as error:
                self._tell_volume(pod, error)
                raise StepFailed from error
        return self._volumes

    def _tell_volume(self, pod: Pod, error: VolumeError) -> None:
        message = f'MountVolume.SetUp failed for volume "{error.volume}" : {error}'
        self._tools.recorder.event(pod.reference, "Warning", error.reason, message)

    async def _sandbox_config(self, pod: Pod, attempt: int) -> SandboxConfig:
        """The same for the sandbox and its first containers: it is asked for with each of them."""
        if self._shared is not None and self._shared[0] is pod and self._shared[1].pod.attempt == attempt:
            return self._shared[1]
        settings = self._tools.settings
        if self._cgroup is None:
            try:
                self._cgroup = await self._tools.cgroups.create(self._tools.allocator.allot(pod))
            except CgroupError as error:
                message = f"unable to ensure pod container exists: {error}"
                self._tools.recorder.event(pod.reference, "Warning", "FailedCreatePodContainer", message)
                raise StepFailed from error
        dns = resolving(pod, read_resolv_conf(settings.resolv_conf), settings.cluster_dns, settings.cluster_domain)
        for warning in dns.warnings:
            self._tools.recorder.event(pod.reference, "Warning", "DNSConfigForming", warning)
        config = replace(
            sandbox_config(pod, attempt, self._tools.paths, self._cgroup, dns, settings.cluster_domain),
            annotations=self._tools.classes.handed_on(pod),
            classes=self._tools.classes.of_sandbox(self._tools.allocator.allot(pod)),
        )
        self._shared = pod, config
        return config

    async def _tell_no_sandbox(self, pod: Pod, error: Exception) -> None:
        said = without_ids(str(error), pod.name)
        reason, message = "FailedCreatePodSandBox", f"Failed to create pod sandbox: {said}"
        why = await _network_trouble(self._tools.runtime) if isinstance(error, RuntimeFault) else ""
        if why and not pod.host_network:
            reason, message = "NetworkNotReady", f"network is not ready: container runtime network not ready: {why}"
        self._tools.recorder.event(pod.reference, "Warning", reason, message)

    # --- containers -------------------------------------------------------------------------------------------------

    async def start(self, pod: Pod, action: Start, sandbox: Sandbox, seen: PodRuntimeState) -> str | None:
        """Start a container; its id. Empty: it waits, and why is noted. None: its image is on the way."""
        name = action.container["name"]
        if name in self.waiting and self._not_before.get(name, 0.0) > self._tools.clock.monotonic():
            self.ask(self._not_before[name])
            return ""
        try:
            if action.created:
                return await self._run_created(pod, action, sandbox)
            if sandbox.handler == MACHINE_CLASS and action.container in pod.ephemeral_containers:
                self._soon(name)  # before its image is asked for, which is none of a machine
                return self._fail(pod, name, "CreateContainerConfigError", NO_EXEC, f"Error: {NO_EXEC}")
            image = await self._tools.images.ensure(pod, action.container, sandbox.handler, self._wake)
            if isinstance(image, Pulling):
                return None
            if isinstance(image, Unavailable):
                self._later(name, image.ask_again)
                return self._fail(pod, name, image.reason, image.message, f"Error: {image.reason}")
            if action.instead:
                await self._discard(pod, action, action.instead)
            if action.failed_at is not None:
                self._back_offs.next(name, action.failed_at, self._tools.clock.now())
            created = await self._create(pod, action, sandbox, seen, image)
            return await self._run(pod, action.container, created, sandbox, fresh=True) if created else ""
        except RuntimeFault as error:
            self._soon(name)
            why = without_ids(str(error), name, sandbox.id)
            return self._fail(pod, name, "RunContainerError", why, f"Error: {why}")

    async def _create(self, pod: Pod, action: Start, sandbox: Sandbox, seen: PodRuntimeState, image: Image) -> str:
        container = action.container
        name = container["name"]
        self._outdated.clear()
        try:
            await self._tools.allocator.before_start(pod, name)
            wanted = ContainerToMake(
                pod,
                container,
                self._attempt(pod, action),
                image,
                await self._prepare(pod),
                self._tools.surroundings(sandbox, pod),
                self._tools.allocator.allot(pod).containers[name],
                target=_target(container, seen),
            )
            config = await self._tools.configs.config(wanted)
        except (ConfigMissing, SecurityRefused, NotGiven, OSError) as error:
            self._soon(name)
            return self._fail(pod, name, "CreateContainerConfigError", str(error), f"Error: {error}")
        try:
            shared = await self._sandbox_config(pod, sandbox.pod.attempt)
            config = self._classed(config, self._tools.classes.request(self._tools.allocator.allot(pod), name))
            created = await self._tools.runtime.create_container(sandbox.id, config, shared)
        except RuntimeFault as error:
            self._soon(name)
            why = without_ids(str(error), name, sandbox.id)
            return self._fail(pod, name, "CreateContainerError", why, f"Error: {why}")
        self._tell(pod, name, "Created", "Container created")
        return created

    async def _run_created(self, pod: Pod, action: Start, sandbox: Sandbox) -> str:
        """Go on where an agent was cut short. What cannot be started as it is makes room for another."""
        try:
            return await self._run(pod, action.container, action.created, sandbox, fresh=False)
        except (RuntimeRefused, NotFound):
            await self._discard(pod, action, action.created)
            raise

    async def _discard(self, pod: Pod, action: Start, id: str) -> None:
        """Take away a container that never ran; its log first, or the next would be counted as another attempt."""
        self._tools.paths.container_log(pod, action.container["name"], action.attempt).unlink(missing_ok=True)
        await self._tools.runtime.remove_container(id)

    @staticmethod
    def _classed(config: ContainerConfig, asked: ClassRequest) -> ContainerConfig:
        return replace(
            config,
            annotations={**config.annotations, **asked.annotations},
            classes=asked.classes,
            resources=replace(config.resources, unified={**config.resources.unified, **asked.unified}),
        )

    async def _run(self, pod: Pod, container: JsonObject, id: str, sandbox: Sandbox, *, fresh: bool) -> str:
        name = container["name"]
        # Nothing may come between these two: a container that starts is in its classes, whoever made it.
        await self._tools.classes.prepare(
            self._tools.allocator.allot(pod), RunningContainer(name, id, sandbox), fresh=fresh
        )
        await self._tools.runtime.start_container(id)
        self._tell(pod, name, "Started", "Container started")
        self.waiting.pop(name, None)
        self._given(pod, container)
        hook = (container.get("lifecycle") or {}).get("postStart")
        if hook:
            await self._after_start(pod, container, id, hook, sandbox)
        return id

    async def _after_start(self, pod: Pod, container: JsonObject, id: str, hook: JsonObject, sandbox: Sandbox) -> None:
        """A container whose hook fails is ended: it never was what it should be."""
        address = next(iter(self._tools.surroundings(sandbox, pod).pod_addresses), "")
        try:
            await self._tools.hooks.run(pod, container, id, hook, address)
        except HookFailed as error:
            self._fail(
                pod, container["name"], "PostStartHookError", str(error), "PostStartHook failed", "FailedPostStartHook"
            )
            self._tell(pod, container["name"], "Killing", "FailedPostStartHook")
            await self._tools.runtime.stop_container(id, pod.grace)

    async def resize(self, pod: Pod, action: Resize, sandbox: Sandbox) -> bool:
        """Give a running container other limits, or other classes."""
        name = action.container["name"]
        allotment = self._tools.allocator.allot(pod)
        try:
            if action.amounts:
                await self._tools.cgroups.update(allotment)
            limits = allotment.containers[name].resources() if action.amounts else None
            await self._tools.classes.change(allotment, RunningContainer(name, action.id, sandbox), limits)
        except (RuntimeFault, CgroupError) as error:
            self._soon(name)
            message = f"Error resizing container {name}: {without_ids(str(error), name, sandbox.id)}"
            self._tools.recorder.event(pod.reference, "Warning", "ResizeError", message)
            return False
        self._given(pod, action.container)
        return True

    def _given(self, pod: Pod, container: JsonObject) -> None:
        """A running container has what it should have."""
        self.applied[container["name"]] = container.get("resources") or {}
        self.classed[container["name"]] = self._tools.allocator.allot(pod).containers[container["name"]].classes

    def _attempt(self, pod: Pod, action: Start) -> int:
        """A runtime that forgot its containers has left their logs: they are not written over."""
        if action.attempt or action.instead:
            return action.attempt
        try:
            logs = [each.stem for each in self._tools.paths.container_logs(pod, action.container["name"]).iterdir()]
        except OSError:
            return 0
        return max((int(each.partition(".")[0]) + 1 for each in logs if each.partition(".")[0].isdigit()), default=0)

    # --- telling ----------------------------------------------------------------------------------------------------

    def ask(self, at: float) -> None:
        """Something can be tried again at this time of the monotonic clock."""
        self.ask_again = at if self.ask_again is None else min(self.ask_again, at)

    def _soon(self, container: str) -> None:
        self._later(container, self._tools.clock.monotonic() + self._tools.settings.retry)

    def _later(self, container: str, at: float) -> None:
        """However often the pod is looked at until then, this container is not tried again."""
        self._not_before[container] = at
        self.ask(at)

    def _fail(
        self, pod: Pod, container: str, reason: str, message: str, event: str, event_reason: str = "Failed"
    ) -> str:
        """Note why a container waits; the id it does not have."""
        if self.waiting.get(container) != (reason, message):
            _log.info("container not started", pod=pod.key, container=container, reason=reason)
        self.waiting[container] = (reason, message)
        self._tools.recorder.event(pod.container_reference(container), "Warning", event_reason, event)
        return ""

    def _tell(self, pod: Pod, container: str, reason: str, message: str) -> None:
        self._tools.recorder.event(pod.container_reference(container), "Normal", reason, message)


def _target(container: JsonObject, seen: PodRuntimeState) -> str:
    """The container whose processes a debugging one sees. Raises ConfigMissing."""
    name = container.get("targetContainerName")
    if not name:
        return ""
    target = seen.latest(name)
    if target is None:
        raise ConfigMissing(f'unable to find target container "{name}"')
    return target.id


async def _network_trouble(runtime: Runtime) -> str:
    """Why the runtime has no network, if it says so."""
    try:
        status = await runtime.status()
    except RuntimeFault:
        return ""
    return "" if status.network_ready else status.message or status.reason or "NetworkReady=false"
